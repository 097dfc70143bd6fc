//! A program that outlives dockbridge, whatever happens to dockbridge.
//!
//! CRIU must not be killed while its code runs inside the processes of a container, because they would die
//! with it. So the program has its own session, ignores signals that ask it to end, and writes into a
//! file. On a machine with systemd, it also has its own unit: the processes of a service are killed with
//! the service, and inherit its system call filter, with which CRIU does not work.
//!
//! The program, everything that it starts, and everything that dockbridge has begun to start for it are found
//! by their current directory.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use nix::{
    sys::signal::{SigHandler, Signal, signal},
    unistd::setsid,
};
use tokio::{
    process::{Child, Command},
    task::spawn_blocking,
    time::sleep,
};

use super::{
    error::{HostError, OrCannot as _},
    orphans,
    process::SYSTEMD_VARIABLES,
    processes::Processes,
};

/// Starts a program in a directory that is used only for it. Its output is appended to the file [`OUTPUT`] there.
/// Dropping the child does not end the program. On a machine with systemd, the child is a client that waits for the
/// unit `name`. Fails if the program or `systemd-run` cannot be started.
pub fn start(
    program: &Path,
    arguments: &[&OsStr],
    directory: &Path,
    name: &str,
) -> io::Result<Child> {
    let output = File::options().create(true).append(true).open(directory.join(OUTPUT))?;
    let mut command = if Path::new(SYSTEMD).exists() {
        let mut command = Command::new("systemd-run");
        let place = directory.to_string_lossy();
        command.args(["--quiet", "--collect", "--wait", "--unit", name]);
        // A stop of the unit does nothing. When the machine is shut down, systemd ends it last.
        for property in ["KillSignal=SIGCONT", "SendSIGKILL=no", "OOMScoreAdjust=-999"] {
            command.args(["--property", property]);
        }
        let shown = |what: &str| format!("{what}=append:{place}/{OUTPUT}");
        for property in
            [format!("WorkingDirectory={place}"), shown("StandardOutput"), shown("StandardError")]
        {
            command.args(["--property", &property]);
        }
        if let Some(path) = search_path() {
            command.args(["--setenv", &format!("PATH={path}")]);
        }
        command.arg("--").arg(resolved(program));
        command
    } else {
        let mut command = Command::new(program);
        // Otherwise a process list shows the path by which dockbridge finds itself.
        command.arg0("dockbridge");
        command
    };
    command
        .args(arguments)
        .current_dir(directory)
        .env_remove(orphans::VARIABLE)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    for variable in SYSTEMD_VARIABLES {
        command.env_remove(variable);
    }
    lead_session(&mut command);
    command.spawn()
}

/// Waits until nothing of a program that was started in this directory runs.
pub async fn ended(directory: &Path) {
    loop {
        let place = directory.to_owned();
        // This task only fails if it panics.
        if !spawn_blocking(move || is_used(&place)).await.unwrap_or_default() {
            return;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Whether anything of a program that was started in this directory runs.
pub fn is_used(directory: &Path) -> bool {
    let Ok(directory) = fs::canonicalize(directory) else { return false };
    Processes::new("/proc").has_in(&directory)
}

/// Runs a command of the detached program to its end. Its output is that of the program. Returns whether it
/// succeeded. Fails if the command cannot be started.
pub fn run(command: &[String]) -> Result<bool, HostError> {
    let (program, arguments) =
        command.split_first().map_or(("", command), |(it, rest)| (it.as_str(), rest));
    let ended = std::process::Command::new(program).args(arguments).stdin(Stdio::null()).status();
    Ok(ended.or_cannot("run", Path::new(program))?.success())
}

/// Ignores signals that ask this process and the programs that it will start to end.
pub fn ignore_requests_to_end() {
    for request in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
        // Cannot fail for these signals.
        let _ = ignore(request);
    }
}

/// Lets writes to closed pipes fail, as in all programs in Rust. A failed `exec` leaves the signal at its default, which
/// ends the process.
pub fn ignore_broken_pipes() {
    // Cannot fail for this signal.
    let _ = ignore(Signal::SIGPIPE);
}

#[allow(unsafe_code, reason = "the disposition of a signal is global")]
fn ignore(request: Signal) -> nix::Result<SigHandler> {
    // SAFETY: no handler is installed, so no code runs in a signal's context.
    unsafe { signal(request, SigHandler::SigIgn) }
}

#[allow(unsafe_code, reason = "the session can be set only between fork and exec")]
fn lead_session(command: &mut Command) {
    // SAFETY: the closure calls only setsid, which does not allocate.
    unsafe { command.pre_exec(|| Ok(setsid().map(drop)?)) };
}

/// The path of a program that another process can run. A program that was replaced by an upgrade has the
/// kernel's mark at its end.
fn resolved(program: &Path) -> PathBuf {
    let Ok(target) = fs::read_link(program) else { return program.to_owned() };
    let text = target.to_string_lossy();
    text.strip_suffix(" (deleted)").unwrap_or(&text).into()
}

/// The first program of this name in the folders of `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = search_path()?;
    path.split(':').map(|folder| Path::new(folder).join(name)).find(|program| program.is_file())
}

fn search_path() -> Option<String> {
    Processes::new("/proc").variable(std::process::id(), "PATH").flatten()
}

/// The name of the file with the output of the program.
pub const OUTPUT: &str = "output.log";
/// The directory exists if systemd is the service manager: `sd_booted(3)`.
const SYSTEMD: &str = "/run/systemd/system";
const LOOK_EVERY: Duration = Duration::from_millis(50);
