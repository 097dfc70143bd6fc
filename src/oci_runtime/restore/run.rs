//! Prepares a restore: fits CRIU's images, changes the root file system, and returns the lower runtime's command line.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File, FileType},
    io::{self, BufReader, Seek as _},
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{
    archive::check_bounds,
    config::Config,
    fit::{Handling, Target, handling},
    images::Images,
    layer,
    paths::Located,
};
use crate::{
    host::{
        disk,
        error::{HostError, OrCannot as _},
        file::{self, Durability},
        root_files::RootFiles,
        seccomp_filter,
    },
    model::restore::{DELETED_FILES, IMAGES, ROOTFS_DIFF},
    oci_runtime::{
        command_line::CommandLine,
        error::OciRuntimeError::{self, Other},
    },
};

/// Fits the container checkpoint to the container that `line` creates. Returns the command line with which the lower
/// runtime restores the container. `bundle` is the bundle for an auxiliary container, which gets the same seccomp
/// filter, so that the filter can be read. `run` runs the lower runtime to its end, and returns whether it succeeded.
///
/// # Errors
/// Fails if the container checkpoint cannot be read or does not fit the container, for example because it has rights
/// that the container must not have. After a failure, no process of the container checkpoint has run.
pub(in crate::oci_runtime) fn prepare(
    line: &CommandLine,
    (checkpoint, bundle): (&Path, &Path),
    run: &dyn Fn(&CommandLine) -> Result<bool, OciRuntimeError>,
) -> Result<CommandLine, OciRuntimeError> {
    let document: Value = json_file(&line.bundle.join("config.json"))?;
    let mut config = Config::deserialize(&document).map_err(|error| Other(error.to_string()))?;
    let root = line.bundle.join(&config.root.path);
    // CRIU's images have resolved paths, so links such as /var/run are also resolved in the new container's mounts.
    let files = RootFiles::open(&root).or_cannot("open", &root)?;
    for mount in &mut config.mounts {
        let resolved = files.resolve(Path::new(&mount.destination));
        let resolved = resolved.or_cannot("resolve the path of a mount in", &root)?;
        mount.destination = resolved.to_string_lossy().into_owned();
    }
    let images = checkpoint.join(IMAGES);
    let (mut read, removed) = read_images(&images)?;
    let filter = match config.linux.seccomp.is_null() {
        true => None,
        false => filter(line, &document, bundle, run)?,
    };
    let target = Target {
        config: &config,
        limits: &own_limits()?,
        filter: filter.as_deref(),
        exists: &|path| Path::new(path).exists(),
    };
    let located = read.fit(&target).map_err(|reason| unfit(&reason))?;
    for name in removed {
        file::remove_if_present(&images.join(name), Durability::Written)?;
    }
    for (name, bytes) in read.contents.iter().filter(|(name, _)| read.changed.contains(*name)) {
        file::replace(&images.join(name), bytes, Durability::Written)?;
    }
    apply_layer(&root, checkpoint)?;
    for Located { volume, path } in located {
        let source = volume.as_deref().map_or(root.as_path(), Path::new);
        check_file(source, &path).map_err(|error| {
            // If the volume is a single file, `join` would add a slash to its path.
            let file: PathBuf = source.join(&path).components().collect();
            unfit(&format!("the checkpoint needs the file {}: {error}", file.display()))
        })?;
    }
    Ok(restore_command(line, &config, checkpoint))
}

/// Refuses a lower runtime that restores a container into a cgroup without the container's limits: with cgroup v2, runc
/// before 1.2 does not tell CRIU the cgroup. `features` is the answer of the lower runtime's command `features`.
///
/// # Errors
/// The runtime would restore without limits, or does not report its features.
pub(in crate::oci_runtime) fn check_runtime(features: &[u8]) -> Result<(), OciRuntimeError> {
    let features: Value = serde_json::from_slice(features).map_err(|_| {
        Other("the runtime does not report its features: install runc 1.2 or newer".to_owned())
    })?;
    let version = features.pointer(RUNC_VERSION).and_then(Value::as_str).unwrap_or_default();
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(1), Some(1)) => Err(Other(format!(
            "runc {version} cannot restore containers on cgroup v2 with their limits: install runc 1.2 or newer"
        ))),
        _ => Ok(()),
    }
}

/// Time limit for a restore, which grows with `checkpoint`'s size. CRIU might hang at a named pipe or on a dead disk.
pub fn time_limit(checkpoint: &Path) -> Duration {
    let directories = [checkpoint.to_owned(), checkpoint.join(IMAGES)].map(fs::read_dir);
    let files = directories.into_iter().flatten().flatten().flatten();
    let bytes: u64 = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    TIME_LIMIT + Duration::from_secs(bytes / SLOW_DISK_RATE)
}

fn unfit(reason: &str) -> OciRuntimeError {
    Other(format!("the checkpoint does not fit the new container: {reason}"))
}

/// Refuses a link, a device, and a path through a link or in procfs. An empty path is `source`, which may be a link.
fn check_file(source: &Path, path: &str) -> io::Result<()> {
    let kind = match path {
        "" => Some(fs::metadata(source)?.file_type()),
        path => RootFiles::open(source)?.kind(Path::new(path))?,
    };
    let is_other = |it: FileType| it.is_symlink() || it.is_char_device() || it.is_block_device();
    if kind.is_some_and(is_other) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the file is a symbolic link or a device",
        ));
    }
    Ok(())
}

/// Makes the command line of `restore` from that of `create`, whose flags it keeps.
fn restore_command(line: &CommandLine, config: &Config, checkpoint: &Path) -> CommandLine {
    let process = &config.process;
    let mut flags: Vec<OsString> = vec!["restore".into(), "--detach".into(), "--file-locks".into()];
    let mut add = |flag: &str, value: OsString| flags.extend([flag.into(), value]);
    add("--image-path", checkpoint.join(IMAGES).into());
    add("--work-path", checkpoint.into());
    if let Some(profile) = process.confining_profile() {
        add("--lsm-profile", format!("apparmor:{profile}").into());
    } else if !process.selinux_label.is_empty() {
        add("--lsm-profile", format!("selinux:{}", process.selinux_label).into());
        add("--lsm-mount-context", config.linux.mount_label.clone().into());
    }
    let mut words = line.words.clone();
    let at = words.iter().position(|word| word == "create").unwrap_or_default();
    words.splice(at..=at, flags);
    CommandLine { words, ..line.clone() }
}

fn read_images(directory: &Path) -> Result<(Images, Vec<String>), OciRuntimeError> {
    let (mut images, mut removed, mut left) = (Images::default(), Vec::new(), LARGEST_SUM);
    for entry in fs::read_dir(directory).or_cannot("list", directory)? {
        let entry = entry.or_cannot("list", directory)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        match handling(&name) {
            Some(Handling::Read) => {
                let bytes = file::read_if_present(&entry.path(), LARGEST_IMAGE.min(left))?;
                let bytes = bytes.unwrap_or_default();
                left = left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
                images.contents.insert(name, bytes);
            }
            Some(Handling::Kept) => {}
            Some(Handling::Removed) => removed.push(name),
            None => {
                return Err(Other(format!(
                    "the checkpoint has the CRIU image {name}, which dockbridge cannot restore"
                )));
            }
        }
    }
    Ok((images, removed))
}

fn apply_layer(root: &Path, checkpoint: &Path) -> Result<(), OciRuntimeError> {
    let changed = checkpoint.join(ROOTFS_DIFF);
    let failed = |error| HostError::new("restore the changed files in", root, error);
    let deleted: Vec<PathBuf> = match checkpoint.join(DELETED_FILES) {
        list if list.exists() => json_file(&list)?,
        _ => Vec::new(),
    };
    let files = RootFiles::open(root).map_err(failed)?;
    // CRI-O writes no archive of the changed files if no file has changed.
    let archive = file::if_there(File::open(&changed)).map_err(failed)?;
    let mut archive = archive.map(BufReader::new);
    if let Some(archive) = &mut archive {
        let checked = check_bounds(&mut *archive, disk::space(root)?.free_bytes);
        checked.and_then(|()| archive.rewind()).map_err(failed)?;
    }
    Ok(layer::apply(&files, archive.into_iter(), &deleted).map_err(failed)?)
}

/// Finds the seccomp filter that the lower runtime makes for the container. The filter depends on the runtime,
/// libseccomp and the kernel, so this function reads the filter of an auxiliary container that never starts.
fn filter(
    line: &CommandLine,
    document: &Value,
    bundle: &Path,
    run: &dyn Fn(&CommandLine) -> Result<bool, OciRuntimeError>,
) -> Result<Option<Vec<u8>>, OciRuntimeError> {
    remove_filter(line, bundle, run)?;
    file::ensure_directory(bundle, 0o700)?;
    let (id, pid_file) = (filter_id(line), bundle.join("pid"));
    let bytes = filter_config(document, &line.bundle, (&line.id, &id)).to_string().into_bytes();
    file::replace(&bundle.join("config.json"), &bytes, Durability::Written)?;
    let words: [&OsStr; 6] = [
        "create".as_ref(),
        "--bundle".as_ref(),
        bundle.as_os_str(),
        "--pid-file".as_ref(),
        pid_file.as_os_str(),
        id.as_ref(),
    ];
    let read =
        run(&subcommand(line, &words)).and_then(|is_created| {
            let pid = fs::read_to_string(&pid_file).unwrap_or_default();
            match pid.trim().parse() {
                Ok(pid) if is_created => Ok(seccomp_filter::of_process(pid)
                    .or_cannot("read the seccomp filter of", bundle)?),
                _ => Err(Other(
                    "the runtime cannot create an auxiliary container with the seccomp filter"
                        .to_owned(),
                )),
            }
        });
    remove_filter(line, bundle, run)?;
    match read? {
        None => Err(Other("the runtime did not set the new container's seccomp filter".to_owned())),
        filter => Ok(filter),
    }
}

/// Removes the auxiliary container for the seccomp filter, which a killed dockbridge-runtime may have left.
pub(in crate::oci_runtime) fn remove_filter(
    line: &CommandLine,
    bundle: &Path,
    run: &dyn Fn(&CommandLine) -> Result<bool, OciRuntimeError>,
) -> Result<(), OciRuntimeError> {
    if bundle.exists() {
        run(&subcommand(line, &["delete".as_ref(), "--force".as_ref(), filter_id(line).as_ref()]))?;
        fs::remove_dir_all(bundle).or_cannot("remove", bundle)?;
    }
    Ok(())
}

fn filter_id(line: &CommandLine) -> String {
    format!("{}-filter", line.id)
}

/// A command line with the same global flags and another command.
fn subcommand(line: &CommandLine, words: &[&OsStr]) -> CommandLine {
    let at = line.words.iter().position(|word| *word == *line.command).unwrap_or_default();
    let mut all = line.words.get(..at).unwrap_or_default().to_vec();
    all.extend(words.iter().map(|word| (*word).to_owned()));
    CommandLine { words: all, ..line.clone() }
}

/// The `config.json` of the auxiliary container, with the container's seccomp filter and root file system.
fn filter_config(document: &Value, bundle: &Path, (id, filter_id): (&str, &str)) -> Value {
    let member = |keys: &[&str]| keys.iter().try_fold(document, |at, key| at.get(*key)).cloned();
    let text = |keys: &[&str]| member(keys).and_then(|it| it.as_str().map(str::to_owned));
    let root = bundle.join(text(&["root", "path"]).unwrap_or_default());
    let namespaces = ["mount", "pid", "ipc", "uts", "network"].map(|kind| json!({ "type": kind }));
    json!({
        "ociVersion": member(&["ociVersion"]),
        "root": { "path": root, "readonly": true },
        "process": {
            "user": { "uid": 0, "gid": 0 },
            // With `noNewPrivileges`, crun loads the seccomp filter only when the container starts.
            "noNewPrivileges": false,
            "cwd": "/",
            // This program exists in any image, because `/proc` is mounted. The auxiliary container never runs it.
            "args": ["/proc/self/exe"],
        },
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/dev", "type": "tmpfs", "source": "tmpfs" },
        ],
        "linux": {
            "namespaces": namespaces,
            "cgroupsPath": text(&["linux", "cgroupsPath"]).map(|path| path.replace(id, filter_id)),
            "seccomp": member(&["linux", "seccomp"]),
        },
    })
}

/// The hard resource limits of this process, which a new container inherits.
fn own_limits() -> Result<Vec<u64>, HostError> {
    let table = fs::read_to_string(LIMITS).or_cannot("read", Path::new(LIMITS))?;
    let hard = table.lines().skip(1).map(|line| {
        let columns = line.get(NAME_WIDTH..).unwrap_or_default();
        // A value that is not a number is `unlimited`.
        columns.split_whitespace().nth(1).and_then(|hard| hard.parse().ok()).unwrap_or(u64::MAX)
    });
    Ok(hard.collect())
}

fn json_file<T: for<'a> serde::Deserialize<'a>>(path: &Path) -> Result<T, OciRuntimeError> {
    let bytes = file::read_if_present(path, LARGEST_IMAGE)?.unwrap_or_default();
    serde_json::from_slice(&bytes).map_err(|error| OciRuntimeError::Malformed {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Time limit for the restore of a small container checkpoint.
const TIME_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 5 } else { 90 });
/// Bytes that a slow disk reads in a second.
const SLOW_DISK_RATE: u64 = 16 << 20;
/// Largest CRIU image or JSON file in bytes that is read. Images with the content of memory are not read.
const LARGEST_IMAGE: u64 = 64 << 20;
/// Largest total size in bytes of the CRIU images that are read: all are in memory at the same time.
const LARGEST_SUM: u64 = 128 << 20;
const LIMITS: &str = "/proc/self/limits";
/// Annotation with runc's version in the answer to `features`. Runtimes not based on runc lack this annotation.
const RUNC_VERSION: &str = "/annotations/org.opencontainers.runc.version";
const NAME_WIDTH: usize = 26;
