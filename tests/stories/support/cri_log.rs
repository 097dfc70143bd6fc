//! Rotates a container's log like kubelet, and reads its files, rotated ones as well.

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

/// A line of a CRI log file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// The time of the line, as it is in the file.
    pub(crate) time: &'a str,
    /// The stream of the line: `stdout` or `stderr`.
    pub(crate) stream: &'a str,
    /// Whether the line's tag is `F`: the text ends a line of the container.
    pub(crate) full: bool,
    /// The text that the container wrote, without its newline.
    pub(crate) text: &'a [u8],
}

impl CriLog {
    /// The log of a container in a pod.
    pub(crate) fn of(pod: &cri::PodSandboxConfig, container: &cri::ContainerConfig) -> Self {
        let path = Path::new(&pod.log_directory).join(&container.log_path);
        Self { path, rotations: 0 }
    }

    /// Waits until the log of standard output has exactly this text.
    #[allow(dead_code, reason = "stories ask for it, measurements do not")]
    pub(crate) async fn until(&self, text: &str) -> Outcome {
        let mut looks = Looks::every(Duration::from_millis(20));
        while self.text("stdout")? != text {
            ensure!(looks.again().await, "standard output is {:?}", self.text("stdout")?);
        }
        Ok(())
    }

    /// The same log. The next rotation gives the renamed file the number after `rotations`.
    #[allow(dead_code, reason = "stories ask for it, measurements do not")]
    pub(crate) fn rotated(self, rotations: u32) -> Self {
        Self { rotations, ..self }
    }

    /// The path of the log's newest file, which kubelet reads.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the log file and calls ReopenContainerLog. If the call fails, renames the file back, unless a new file
    /// already exists.
    pub(crate) async fn rotate(&mut self, cri: &Cri, container: &str) -> Outcome<Answer> {
        self.rotations += 1;
        let aside = self.aside();
        fs::rename(&self.path, &aside)?;
        let answer = cri.reopen_log(container).await;
        if answer.is_err() {
            let (from, to) = (&aside, &self.path);
            // Without `RENAME_NOREPLACE`, the rename would replace a new file that dockbridge is writing.
            let _ = renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE);
        }
        Ok(answer)
    }

    /// All files in the log's directory, sorted by name, but the newest file last.
    pub(crate) fn files(&self) -> Outcome<Vec<PathBuf>> {
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let mut files = Vec::new();
        for entry in fs::read_dir(directory)? {
            files.push(entry?.path());
        }
        // The newest file has no rotation number in its name.
        files.sort_by_key(|path| (*path == self.path, path.clone()));
        Ok(files)
    }

    /// The time of the last line that ends with a newline, or `None` if there is no such line. Lines must be shorter
    /// than 4 KiB.
    pub(crate) fn latest(&self) -> Outcome<Option<Timestamp>> {
        for path in self.files()?.iter().rev() {
            if let Some(time) = Self::latest_in(path)? {
                return Ok(Some(time));
            }
        }
        Ok(None)
    }

    fn latest_in(path: &Path) -> Outcome<Option<Timestamp>> {
        // The file may have been renamed since the directory was listed.
        let Ok(file) = File::open(path) else { return Ok(None) };
        let from = file.metadata()?.len().saturating_sub(4096);
        let mut end = vec![0; 4096];
        let read = file.read_at(&mut end, from)?;
        let mut lines = end[..read].rsplit(|byte| *byte == b'\n').skip(1);
        // The first line of the read part may be incomplete.
        let time = lines.find_map(|line| {
            std::str::from_utf8(line).ok()?.split(' ').next()?.parse::<Timestamp>().ok()
        });
        Ok(time)
    }

    /// The total size of the log's files in bytes.
    pub(crate) fn length(&self) -> Outcome<u64> {
        self.files()?.iter().try_fold(0, |sum, path| Ok(sum + fs::metadata(path)?.size()))
    }

    /// Passes each line to `take`, oldest first. Fails at a line that is malformed or lacks its newline.
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

    /// The text of one stream in the log, with the parts of long lines joined and a newline after each line.
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
