//! A container's log as kubelet sees it: files of CRI lines, which it reads and rotates.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use dockbridge::wire::cri;
use jiff::Timestamp;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use super::{
    cri::{Answer, Cri},
    failure::{Failure, Outcome, ensure, fail},
    patience::Looks,
};

/// One container's log.
#[derive(Clone, Debug)]
pub(crate) struct CriLog {
    path: PathBuf,
    rotations: u32,
}

/// A line of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// The time as it is written.
    pub(crate) time: &'a str,
    /// `stdout` or `stderr`.
    pub(crate) stream: &'a str,
    /// Whether the line ends here.
    pub(crate) full: bool,
    /// What the container wrote.
    pub(crate) text: &'a [u8],
}

impl CriLog {
    /// The log of a container in a pod.
    pub(crate) fn of(pod: &cri::PodSandboxConfig, container: &cri::ContainerConfig) -> Self {
        let path = Path::new(&pod.log_directory).join(&container.log_path);
        Self { path, rotations: 0 }
    }

    /// Waits until the container has written this to standard output, and nothing else.
    #[allow(dead_code, reason = "stories ask for it, measurements do not")]
    pub(crate) async fn until(&self, text: &str) -> Outcome {
        let mut looks = Looks::every(Duration::from_millis(20));
        while self.text("stdout")? != text {
            ensure!(looks.again().await, "standard output is {:?}", self.text("stdout")?);
        }
        Ok(())
    }

    /// The same after this many rotations.
    #[allow(dead_code, reason = "stories ask for it, measurements do not")]
    pub(crate) fn rotated(self, rotations: u32) -> Self {
        Self { rotations, ..self }
    }

    /// The path that kubelet reads.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the log and requests a new file. If this is refused, the old file gets its name back, unless
    /// a new one exists by then.
    pub(crate) async fn rotate(&mut self, cri: &Cri, container: &str) -> Outcome<Answer> {
        self.rotations += 1;
        let aside = self.aside();
        fs::rename(&self.path, &aside)?;
        let answer = cri.reopen_log(container).await;
        if answer.is_err() {
            let (from, to) = (&aside, &self.path);
            // A plain rename would replace a file that is being written.
            let _ = renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE);
        }
        Ok(answer)
    }

    /// Its files, oldest first.
    pub(crate) fn files(&self) -> Outcome<Vec<PathBuf>> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            files.push(entry?.path());
        }
        // The newest one has no suffix.
        files.sort_by_key(|path| (*path == self.path, path.clone()));
        Ok(files)
    }

    /// The time of the last line. None if there is no line yet.
    pub(crate) fn latest(&self) -> Outcome<Option<Timestamp>> {
        for path in self.files()?.iter().rev() {
            if let Some(time) = Self::latest_in(path)? {
                return Ok(Some(time));
            }
        }
        Ok(None)
    }

    fn latest_in(path: &Path) -> Outcome<Option<Timestamp>> {
        // It may have been renamed since it was listed.
        let Ok(file) = File::open(path) else { return Ok(None) };
        let from = file.metadata()?.len().saturating_sub(4096);
        let mut end = vec![0; 4096];
        let read = file.read_at(&mut end, from)?;
        let mut lines = end[..read].rsplit(|byte| *byte == b'\n').skip(1);
        // The first line may be incomplete.
        let time = lines.find_map(|line| {
            std::str::from_utf8(line).ok()?.split(' ').next()?.parse::<Timestamp>().ok()
        });
        Ok(time)
    }

    /// Total size of all files in bytes.
    pub(crate) fn length(&self) -> Outcome<u64> {
        self.files()?.iter().try_fold(0, |sum, path| Ok(sum + fs::metadata(path)?.size()))
    }

    /// Passes one line after the other to `take`, starting with the oldest file. Incomplete lines are an
    /// error.
    pub(crate) fn each(&self, mut take: impl FnMut(Line<'_>) -> Outcome) -> Outcome {
        for path in self.files()? {
            let mut file = BufReader::with_capacity(1 << 20, File::open(&path)?);
            let (mut bytes, mut number) = (Vec::new(), 0);
            while file.read_until(b'\n', &mut bytes)? > 0 {
                number += 1;
                let place = || format!("{}:{number}", path.display());
                let Some(line) = Line::parse(&bytes) else {
                    fail!("{}: {:?}", place(), String::from_utf8_lossy(&bytes));
                };
                take(line).map_err(|Failure(text)| Failure(format!("{}: {text}", place())))?;
                bytes.clear();
            }
        }
        Ok(())
    }

    /// The text of one stream: parts joined, lines with their newlines.
    pub(crate) fn text(&self, stream: &str) -> Outcome<String> {
        let mut all = Vec::new();
        self.each(|line| {
            line.time.parse::<Timestamp>()?;
            ensure!(matches!(line.stream, "stdout" | "stderr"), "stream {}", line.stream);
            if line.stream == stream {
                all.extend_from_slice(line.text);
                all.extend_from_slice(if line.full { b"\n" } else { b"" });
            }
            Ok(())
        })?;
        Ok(String::from_utf8(all)?)
    }

    fn aside(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{:06}", self.rotations));
        name.into()
    }
}

impl<'a> Line<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut words = bytes.strip_suffix(b"\n")?.splitn(4, |byte| *byte == b' ');
        let mut word = || words.next();
        let time = std::str::from_utf8(word()?).ok()?;
        let stream = std::str::from_utf8(word()?).ok()?;
        let full = match word()? {
            b"F" => true,
            b"P" => false,
            _ => return None,
        };
        Some(Self { time, stream, full, text: word()? })
    }
}
