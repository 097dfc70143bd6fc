//! Finds dockerd and its configuration file, shows and writes the change, and makes dockerd read the file.

use std::{
    fmt::Write as _,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use clap::Args;

use super::{
    daemon_json::{self, Entry, PROGRAM},
    error::SetupError,
    reading::{self, Daemon, DaemonFlags, Reading, USUAL_FILE},
};
use crate::{
    host::{capability, file, processes::Processes},
    model::oci_edits::RUNTIME,
};

/// The command line of `dockbridge setup`.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct SetupArgs {
    /// Show what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Remove dockbridge-runtime from Docker's configuration file
    #[arg(long, conflicts_with = "runtime")]
    pub undo: bool,
    /// The runtime that dockbridge-runtime runs: a name or an absolute path. Pods with user namespaces
    /// need runc [default: runc]
    #[arg(long, value_name = "NAME")]
    pub runtime: Option<String>,
    /// Docker's configuration file [default: the one of the running dockerd, otherwise /etc/docker/daemon.json]
    #[arg(long, value_name = "FILE")]
    pub daemon_json: Option<PathBuf>,
}

/// Registers dockbridge-runtime with the engine behind `socket`, or removes the entry. Returns false if a running
/// engine has not applied the change. An engine that does not run reads the file when it starts.
///
/// # Errors
/// Fails if the change is refused, a file cannot be read, written or removed, or `out` cannot be written.
pub fn run(socket: &Path, args: &SetupArgs, out: &mut impl Write) -> Result<bool, SetupError> {
    let processes = Processes::new("/proc");
    let daemon = find(&processes, socket);
    let path = path(socket, args, daemon.as_ref())?;
    let old = file::read_if_present(&path, MAX_FILE)?.unwrap_or_default();
    let refused = |reason: String| SetupError::Refused(format!("{}: {reason}", path.display()));
    // `from_utf8` also refuses UTF-16 with a byte order mark, which Docker itself can read.
    let old = String::from_utf8(old)
        .map_err(|_| refused("not UTF-8: convert the file first".to_owned()))?;
    let program = if args.undo { None } else { Some(program(&processes)?) };
    let changed = if let Some(program) = &program {
        let entry = Entry::new(program.clone(), lower_runtime(args)?);
        let changed = daemon_json::with_entry(&old, &entry).map_err(refused)?;
        if let Some(Daemon { pid, flags }) = &daemon
            && flags.adds_runtimes
        {
            return Err(SetupError::Refused(format!(
                "dockerd (process {pid}) has --add-runtime in its command line, and does not start if \
                 daemon.json also has \"runtimes\": move the runtimes of the command line into {}, restart Docker \
                 and repeat this command, or add --add-runtime dockbridge={} to the command line and restart \
                 Docker (without live-restore, a restart ends every container)",
                path.display(),
                entry.path
            )));
        }
        changed
    } else {
        daemon_json::without_entry(&old).map_err(refused)?
    };
    let backup = Backup::of(&path);
    // If an undo would result in the settings of the backup, it restores the backup, which has the administrator's own
    // layout.
    let restored = changed.as_deref().filter(|_| args.undo).and_then(|new| backup.equal_to(new));
    let is_restored = restored.is_some();
    let changed = restored.or(changed);
    match &changed {
        Some(new) => {
            write!(out, "{}:\n{}", path.display(), difference(&old, new))?;
            if args.undo {
                writeln!(out, "{LEFT_BEHIND}")?;
            }
        }
        None => {
            let has = if args.undo { "has no" } else { "has the" };
            writeln!(out, "{} {has} runtime {RUNTIME:?}", path.display())?;
        }
    }
    if !args.undo {
        reading::runtimes(socket)?.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    if args.dry_run {
        writeln!(out, "nothing was changed (--dry-run)")?;
        return Ok(true);
    }
    if let Some(new) = &changed {
        let is_first = daemon_json::without_entry(&old).is_ok_and(|without| without.is_none());
        if !args.undo && is_first && backup.keep(&old)? {
            writeln!(out, "the old file is kept as {}", backup.0.display())?;
        }
        file::replace_in_place(&path, new.as_bytes()).map_err(|e| SetupError::of(e, &path))?;
    }
    let has_usual_file = daemon.as_ref().is_none_or(|daemon| daemon.flags.config_file.is_none());
    let text = changed.as_deref().unwrap_or(&old);
    let wanted = program.as_ref().map(Path::new);
    let reading = Reading { socket, path: &path, text, wanted, is_changed: changed.is_some() };
    let reached = reading.run(&processes, daemon)?;
    let (Ok(told) | Err(told)) = &reached;
    writeln!(out, "{told}")?;
    if is_restored {
        fs::remove_file(&backup.0)?;
    } else if changed.is_some() && args.undo && has_usual_file && text.trim() == "{}" {
        // No settings are left. With `--config-file`, dockerd does not start if the file is missing.
        fs::remove_file(&path)?;
    }
    Ok(reached.is_ok())
}

/// The backup of `daemon.json` from before our entry was added.
struct Backup(PathBuf);

impl Backup {
    fn of(path: &Path) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push(".before-dockbridge");
        Self(PathBuf::from(name))
    }

    /// Writes the backup, unless the old file was missing or empty. Returns whether it wrote the backup.
    fn keep(&self, old: &str) -> Result<bool, SetupError> {
        if old.is_empty() {
            return Ok(false);
        }
        file::replace_in_place(&self.0, old.as_bytes()).map_err(|e| SetupError::of(e, &self.0))?;
        Ok(true)
    }

    /// The text of the backup, if the backup has the same settings as `text`.
    fn equal_to(&self, text: &str) -> Option<String> {
        let own = fs::read_to_string(&self.0).ok()?;
        daemon_json::is_equal(&own, text).then_some(own)
    }
}

/// The flags of the dockerd behind `socket`; `None` if dockbridge does not find this dockerd.
pub fn daemon_flags(socket: &Path) -> Option<DaemonFlags> {
    find(&Processes::new("/proc"), socket).map(|daemon| daemon.flags)
}

/// Finds the dockerd of root in this mount namespace that listens on the socket. If systemd listens on the socket,
/// finds root's only dockerd in this mount namespace.
fn find(processes: &Processes, socket: &Path) -> Option<Daemon> {
    let all = processes.find_services("dockerd");
    let listener = capability::listening_pid(socket)?;
    let pid = match all.as_slice() {
        _ if all.contains(&listener) => listener,
        [one] if listener == SYSTEMD => *one,
        _ => return None,
    };
    Some(Daemon { pid, flags: DaemonFlags::read(&processes.command_line(pid)) })
}

fn path(socket: &Path, args: &SetupArgs, daemon: Option<&Daemon>) -> Result<PathBuf, SetupError> {
    if let Some(path) = &args.daemon_json {
        return Ok(path.clone());
    }
    let Some(daemon) = daemon else {
        // A dockerd of a snap (in its own mount namespace) and a rootless dockerd (of another user) do not read
        // `USUAL_FILE`. If systemd listens, dockerd might not run yet.
        return match capability::listening_pid(socket).filter(|pid| *pid != SYSTEMD) {
            Some(pid) => Err(SetupError::Refused(format!(
                "process {pid} listens on {} and is not a dockerd of root in this mount namespace, so \
                 its configuration file is unknown: give the absolute path of the file with --daemon-json",
                socket.display()
            ))),
            None => Ok(PathBuf::from(USUAL_FILE)),
        };
    };
    match &daemon.flags.config_file {
        // dockbridge does not know the directory to which a relative path refers.
        Some(path) if Path::new(path).is_relative() => Err(SetupError::Refused(format!(
            "dockerd (process {}) was started with --config-file {path:?}: give the file's \
             absolute path with --daemon-json",
            daemon.pid
        ))),
        Some(path) => Ok(PathBuf::from(path)),
        None => Ok(PathBuf::from(USUAL_FILE)),
    }
}

/// The path of dockbridge-runtime: in the directory of this program, or where packages install it.
fn program(processes: &Processes) -> Result<String, SetupError> {
    let own = processes.executable(std::process::id()).unwrap_or_default();
    let (beside, usual) = (own.with_file_name(PROGRAM), Path::new(USUAL_PROGRAM));
    let there = [beside.as_path(), usual].into_iter().find(|path| path.is_file());
    let there = there.and_then(Path::to_str).map(str::to_owned);
    there.ok_or_else(|| {
        SetupError::Refused(format!(
            "dockbridge-runtime is missing: neither {} nor {} exists; create one of them as a link \
             to dockbridge",
            beside.display(),
            usual.display()
        ))
    })
}

/// The value of `--runtime`. Fails if there is no file with this path, or no program with this name in [`PROGRAMS`].
fn lower_runtime(args: &SetupArgs) -> Result<Option<&str>, SetupError> {
    let Some(name) = args.runtime.as_deref() else { return Ok(None) };
    let is_there = match Path::new(name) {
        path if path.is_absolute() => path.is_file(),
        path => {
            !name.contains('/')
                && PROGRAMS.iter().any(|place| Path::new(place).join(path).is_file())
        }
    };
    let missing = || {
        format!("cannot find the program {name} (--runtime): install it, or give its absolute path")
    };
    if is_there { Ok(Some(name)) } else { Err(SetupError::Refused(missing())) }
}

/// The lines from the first change to the last, with up to [`CONTEXT`] lines before and after.
pub(super) fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| {
        pairs.take_while(|(one, other)| one == other).count()
    };
    let head = same(&mut old.iter().zip(&new));
    let rest = old.len().min(new.len()) - head;
    let tail = same(&mut old.iter().rev().zip(new.iter().rev())).min(rest);
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let mut text = String::new();
    for (mark, lines) in [
        (' ', old.get(head.saturating_sub(CONTEXT)..head)),
        ('-', old.get(head..old_end)),
        ('+', new.get(head..new_end)),
        (' ', old.get(old_end..old.len().min(old_end + CONTEXT))),
    ] {
        for line in lines.unwrap_or_default() {
            let _ = writeln!(text, "{mark}{line}");
        }
    }
    text
}

const USUAL_PROGRAM: &str = "/usr/bin/dockbridge-runtime";
const PROGRAMS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// The pid of systemd, which listens on the sockets of socket units.
const SYSTEMD: u32 = 1;
/// Largest `daemon.json` in bytes, much larger than its settings need.
const MAX_FILE: u64 = 4 << 20;
const LEFT_BEHIND: &str = "after this change, containers that use dockbridge-runtime cannot start \
                           again: remove their pods";
const CONTEXT: usize = 3;
