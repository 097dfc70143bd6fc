//! Runs a program that continues to run even if dockbridge is killed.
//!
//! CRIU must not be killed while its code runs inside the processes of a container, because these processes would
//! also die. So a detached program runs in its own session, ignores signals that ask it to end, and prints to a file.
//! With systemd, the program also runs in its own unit: in dockbridge's unit, systemd would kill the program
//! together with dockbridge, and the unit's system call filter would make CRIU fail.
//!
//! dockbridge recognises the detached program and its processes by their current directory.

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

/// Starts a program with `directory` as its current directory, and appends its output to [`OUTPUT`] there. Dropping the
/// child does not end the program. With systemd, the child is a `systemd-run` that waits for the unit `name`.
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
        // With the first two properties, stopping the unit does not end the program. At a shutdown, systemd kills the
        // program only after stopping all units.
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
        // Sets the program's name in its command line, which would otherwise be `/proc/self/exe`.
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

/// Waits until all processes of the program that was started in this directory have ended ([`is_used`]).
pub async fn ended(directory: &Path) {
    loop {
        let place = directory.to_owned();
        // A panic of the task ends the wait.
        if !spawn_blocking(move || is_used(&place)).await.unwrap_or_default() {
            return;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Whether a process has its current directory at or below `directory`, such as the program that was started there.
pub fn is_used(directory: &Path) -> bool {
    let Ok(directory) = fs::canonicalize(directory) else { return false };
    Processes::new("/proc").has_in(&directory)
}

/// Runs a command as a child of the detached program, and waits for its end. The command has the same output file as
/// the detached program. Returns whether the command succeeded. Fails if the command cannot be started.
pub fn run(command: &[String]) -> Result<bool, HostError> {
    let (program, arguments) =
        command.split_first().map_or(("", command), |(it, rest)| (it.as_str(), rest));
    let ended = std::process::Command::new(program).args(arguments).stdin(Stdio::null()).status();
    Ok(ended.or_cannot("run", Path::new(program))?.success())
}

/// Makes this process ignore signals that ask a process to end. A program that this process starts later also ignores
/// such a signal, unless the program sets its own handler.
pub fn ignore_requests_to_end() {
    for request in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
        // Ignoring SIGHUP, SIGINT, SIGQUIT or SIGTERM cannot fail.
        let _ = ignore(request);
    }
}

/// Makes writes to closed pipes fail instead of ending the process: a failed `CommandExt::exec` has reset SIGPIPE.
pub fn ignore_broken_pipes() {
    // Ignoring SIGPIPE cannot fail.
    let _ = ignore(Signal::SIGPIPE);
}

#[allow(unsafe_code, reason = "the disposition of a signal applies to the whole process")]
fn ignore(request: Signal) -> nix::Result<SigHandler> {
    // SAFETY: no handler is installed, so no code runs in a signal's context.
    unsafe { signal(request, SigHandler::SigIgn) }
}

#[allow(unsafe_code, reason = "setsid must run in the child, between fork and exec")]
fn lead_session(command: &mut Command) {
    // SAFETY: the closure calls only setsid, which does not allocate.
    unsafe { command.pre_exec(|| Ok(setsid().map(drop)?)) };
}

/// The target of a link such as `/proc/self/exe`, otherwise `program` itself. Removes ` (deleted)`, which the
/// kernel appends if the executable was removed or replaced.
fn resolved(program: &Path) -> PathBuf {
    let Ok(target) = fs::read_link(program) else { return program.to_owned() };
    let text = target.to_string_lossy();
    text.strip_suffix(" (deleted)").unwrap_or(&text).into()
}

/// The path of the first file with this name in the directories of `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = search_path()?;
    path.split(':').map(|folder| Path::new(folder).join(name)).find(|program| program.is_file())
}

fn search_path() -> Option<String> {
    Processes::new("/proc").variable(std::process::id(), "PATH").flatten()
}

/// The name of the file with the output of the detached program.
pub const OUTPUT: &str = "output.log";
/// A directory that exists if systemd is the service manager: `sd_booted(3)`.
const SYSTEMD: &str = "/run/systemd/system";
const LOOK_EVERY: Duration = Duration::from_millis(50);
