//! Runs one command of dockbridge-runtime: makes edits and runs the lower runtime, if the command needs them. The
//! lower runtime is the one in the container's edits file, otherwise that of `--dockbridge-runtime`, otherwise runc.
//!
//! If the lower runtime runs dockbridge-runtime, this inner call finds the id in the environment and makes no edits.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{self, Command, ExitCode, ExitStatus, Stdio},
    sync::mpsc::channel,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    apply::apply, command_line::CommandLine, create, criu_log, directory::EditsDirectory,
    error::OciRuntimeError, restore,
};
use crate::{
    error::chain,
    host::{
        detached::ignore_broken_pipes,
        error::OrCannot as _,
        file::{self, Durability},
        process_tree, umask,
    },
};

/// Returns the runtime's arguments if the program was started as `dockbridge-runtime` or `dockbridge runtime`.
pub fn words_for_runtime(words: &[OsString]) -> Option<Vec<OsString>> {
    let name = words.first().and_then(|word| Path::new(word).file_name());
    if name == Some(OsStr::new(NAME)) {
        return Some(words.iter().skip(1).cloned().collect());
    }
    let is_command = words.get(1).is_some_and(|word| word == "runtime");
    is_command.then(|| words.iter().skip(2).cloned().collect())
}

/// Runs a command. Becomes the lower runtime (`execve`), unless work such as an unmount follows it.
pub fn execute(words: Vec<OsString>, environment: &dyn Fn(&str) -> Option<String>) -> ExitCode {
    // runc sets a umask for `create`, but its `exec` keeps the inherited one. dockerd 29.7 has the umask 0
    // (moby#52892), and a containerd that dockerd starts inherits this umask.
    umask::restrict();
    let line = CommandLine::read(words);
    if line.command.is_empty() {
        // A line for people, on standard error: dockerd reads only the standard output of `--version`.
        let runtime = runtime(&line).to_string_lossy();
        let _ = writeln!(io::stderr(), "{NAME} {} runs {runtime}:", env!("CARGO_PKG_VERSION"));
    }
    let is_inner = line.is_of_container() && environment(CONTAINER).as_ref() == Some(&line.id);
    let ended = match is_inner {
        true => Err(replace(&line)),
        false => run(line.clone(), &EditsDirectory::default(), environment),
    };
    match ended {
        Ok(code) => code,
        Err(error) => {
            report(line.log.as_deref(), line.is_log_json, &chain(&error));
            ExitCode::FAILURE
        }
    }
}

pub(super) fn run(
    line: CommandLine,
    directory: &EditsDirectory,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<ExitCode, OciRuntimeError> {
    if !line.is_of_container() {
        return if line.command == "features" { features(&line) } else { Err(replace(&line)) };
    }
    let line = &chained(line, directory, environment)?;
    if line.command == "create" {
        // A container that was restored but never started counts as started from now on, and is not restored again.
        directory.take_restored(&line.id)?;
        if let Some(dump) = directory.restore(&line.id)? {
            return restore(line, directory, &dump).inspect_err(|_| unmount(line, directory));
        }
    }
    if line.command == "delete" {
        restore::run::remove_filter(line, &directory.filter(&line.id), &|line| succeeds(line))?;
    }
    match line.command.as_str() {
        // A restored container already runs, so there is nothing to start.
        "start" if directory.take_restored(&line.id)? => Ok(ExitCode::SUCCESS),
        "create" | "run" | "restore" if create::prepare(directory, &line.id, &line.bundle)? => {
            let ended = wait(line)?;
            if !ended.success() || line.command == "run" {
                unmount(line, directory);
            }
            Ok(code(ended))
        }
        "delete" if directory.has_mounts(&line.id) => {
            let ended = wait(line)?;
            if ended.success() {
                unmount(line, directory);
            }
            Ok(code(ended))
        }
        "exec" => {
            change_command(line, directory)?;
            Err(replace(line))
        }
        _ => Err(replace(line)),
    }
}

/// Restores a container instead of creating it. Once the bundle is prepared, even a failed restore removes the dump:
/// the next start then fails, unless the server writes the dump again.
fn restore(
    line: &CommandLine,
    directory: &EditsDirectory,
    dump: &Path,
) -> Result<ExitCode, OciRuntimeError> {
    create::prepare(directory, &line.id, &line.bundle)?;
    // The server may write a new dump to the same path while this process runs.
    let own = dump.with_file_name(format!("taken-{}", process::id()));
    fs::rename(dump, &own).or_cannot("start from the container checkpoint in", dump)?;
    let restored = restore_from(line, directory, &own);
    if let Err(error) = fs::remove_dir_all(&own) {
        // The server will remove this dump after the start.
        report(line.log.as_deref(), line.is_log_json, &format!("{}: {error}", own.display()));
    }
    restored
}

fn restore_from(
    line: &CommandLine,
    directory: &EditsDirectory,
    dump: &Path,
) -> Result<ExitCode, OciRuntimeError> {
    if Path::new(CGROUP_V2).exists() {
        let features = CommandLine { words: vec!["features".into()], ..line.clone() };
        let answer = command(&features).stdin(Stdio::null()).output();
        let answer = answer.map_err(|source| failed_to_run(line, &source))?;
        restore::run::check_runtime(&answer.stdout)?;
    }
    let (limit, begun) = (restore::run::time_limit(dump), Instant::now());
    let restoring = prepare_restore((line.clone(), directory.filter(&line.id)), dump, limit)?;
    let left = limit.saturating_sub(begun.elapsed());
    let ended = process_tree::run_within(&mut command(&restoring), left)
        .map_err(|source| failed_to_run(line, &source))?;
    if ended.is_some_and(|ended| ended.success()) {
        directory.mark_restored(&line.id)?;
        return Ok(ExitCode::SUCCESS);
    }
    unmount(line, directory);
    let log = file::read_text(&dump.join("restore.log"), LARGEST_LOG);
    let reason = match (ended, log) {
        // If there is no log, CRIU did not run, and the lower runtime has already reported the reason.
        (Some(ended), Err(_)) => return Ok(code(ended)),
        (Some(_), Ok(log)) => criu_log::reason(&log, ""),
        (None, log) => criu_log::unfinished(&log.unwrap_or_default(), limit),
    };
    Err(OciRuntimeError::Other(format!("CRIU cannot restore the checkpoint: {reason}")))
}

/// Prepares a restore on a thread, and waits for the thread for at most `limit`. If a volume's disk does not answer,
/// the thread hangs until this process, `dockbridge-runtime`, ends.
fn prepare_restore(
    (line, filter): (CommandLine, PathBuf),
    dump: &Path,
    limit: Duration,
) -> Result<CommandLine, OciRuntimeError> {
    let (sender, prepared) = channel();
    let dump = dump.to_owned();
    thread::spawn(move || {
        let done = restore::run::prepare(&line, (&dump, &filter), &|line| succeeds(line));
        // `send` fails if the limit has ended and no thread waits for the result.
        drop(sender.send(done));
    });
    prepared.recv_timeout(limit).unwrap_or_else(|_| {
        let cause = "probably a file system of this host did not answer (a dead network mount?)";
        let text = format!(
            "the restore of the container checkpoint was not prepared after {}s: {cause}",
            limit.as_secs()
        );
        Err(OciRuntimeError::Other(text))
    })
}

/// Uses the runtime that the container's file names, if any, as lower runtime. If that runtime's program is gone, for
/// example NVIDIA's toolkit, the commands that end the container use the runtime of the command line.
pub(super) fn chained(
    mut line: CommandLine,
    directory: &EditsDirectory,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<CommandLine, OciRuntimeError> {
    let named = directory.runtime(&line.id);
    let Some(program) = named.first() else { return Ok(line) };
    let is_there = is_there(Path::new(program), environment);
    if !is_there && ENDS.contains(&line.command.as_str()) {
        return Ok(line);
    }
    line.runtime = named;
    let missing = || io::Error::new(io::ErrorKind::NotFound, "no such program");
    if is_there { Ok(line) } else { Err(failed_to_run(&line, &missing())) }
}

fn is_there(program: &Path, environment: &dyn Fn(&str) -> Option<String>) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let folders = environment("PATH").unwrap_or_else(|| USUAL_PATH.to_owned());
    folders.split(':').any(|folder| Path::new(folder).join(program).is_file())
}

/// Reports a failure but does not return it: another `create`, or the removal, unmounts the rest.
fn unmount(line: &CommandLine, directory: &EditsDirectory) {
    if let Err(error) = directory.unmount(&line.id) {
        report(line.log.as_deref(), line.is_log_json, &chain(&error));
    }
}

/// Applies the container's edits for capabilities, environment and groups to the process of an `exec`.
pub(super) fn change_command(
    line: &CommandLine,
    directory: &EditsDirectory,
) -> Result<(), OciRuntimeError> {
    let Some(path) = &line.process else { return Ok(()) };
    let edits = directory.read_for_commands(&line.id)?;
    if edits.is_empty() {
        return Ok(());
    }
    let malformed = |reason: String| OciRuntimeError::Malformed { path: path.clone(), reason };
    let Some(bytes) = file::read_if_present(path, MAX_PROCESS)? else { return Ok(()) };
    let process: Value = serde_json::from_slice(&bytes).map_err(|e| malformed(e.to_string()))?;
    let mut document = json!({"process": process});
    apply(&mut document, &edits)?;
    let text =
        serde_json::to_vec(&document.get("process")).map_err(|e| malformed(e.to_string()))?;
    Ok(file::replace(path, &text, Durability::Written)?)
}

/// Adds our version to the lower runtime's answer. The Engine API's `/info` shows the answer since Docker 25.
fn features(line: &CommandLine) -> Result<ExitCode, OciRuntimeError> {
    let failed = |source| failed_to_run(line, &source);
    let output = command(line).stderr(Stdio::inherit()).output().map_err(failed)?;
    let mut text = output.stdout;
    if let Ok(mut document) = serde_json::from_slice::<Value>(&text)
        && let Some(object) = document.as_object_mut()
    {
        let annotations = object.entry("annotations").or_insert(json!({}));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(VERSION.to_owned(), env!("CARGO_PKG_VERSION").into());
        }
        text = document.to_string().into_bytes();
    }
    io::stdout().write_all(&text).map_err(failed)?;
    Ok(code(output.status))
}

fn wait(line: &CommandLine) -> Result<ExitStatus, OciRuntimeError> {
    command(line).status().map_err(|source| failed_to_run(line, &source))
}

/// Runs the lower runtime without standard input. Returns whether the command succeeded.
fn succeeds(line: &CommandLine) -> Result<bool, OciRuntimeError> {
    let ended = command(line).stdin(Stdio::null()).status();
    Ok(ended.map_err(|source| failed_to_run(line, &source))?.success())
}

/// Replaces this process with the lower runtime (`execve`). Returns only if `execve` fails.
fn replace(line: &CommandLine) -> OciRuntimeError {
    let failed = command(line).exec();
    // Otherwise, if standard error is a closed pipe, writing the error to it would kill this process.
    ignore_broken_pipes();
    failed_to_run(line, &failed)
}

/// The command that runs the lower runtime. A runtime with arguments runs in a shell, which splits the
/// arguments, because Docker also writes such a runtime as a line of a shell script.
pub(super) fn command(line: &CommandLine) -> Command {
    let mut command = Command::new(runtime(line));
    if line.runtime.len() > 1 {
        let mut script = OsString::from("exec ");
        script.push(line.runtime.join(OsStr::new(" ")));
        script.push(" \"$@\"");
        command = Command::new(SHELL);
        command.arg("-c").arg(script).arg(runtime(line));
    }
    command.args(&line.words).env(CONTAINER, &line.id);
    command
}

fn runtime(line: &CommandLine) -> &OsStr {
    line.runtime.first().map_or(OsStr::new(DEFAULT), OsString::as_os_str)
}

fn failed_to_run(line: &CommandLine, source: &io::Error) -> OciRuntimeError {
    OciRuntimeError::Other(format!("cannot run {}: {source}", runtime(line).display()))
}

/// The exit code as in a shell: 128 plus the signal's number if a signal ended the process.
fn code(status: ExitStatus) -> ExitCode {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(number).unwrap_or(1))
}

/// Reports an error in the file of `--log` in runc's format for the engine, and on standard error for people.
fn report(log: Option<&Path>, is_json: bool, message: &str) {
    let _ = writeln!(io::stderr(), "dockbridge-runtime: {message}");
    let Some(log) = log else { return };
    let line = match is_json {
        true => json!({"level": "error", "msg": format!("dockbridge-runtime: {message}"), "time": now()})
            .to_string(),
        false => format!("time=\"{}\" level=error msg={:?}", now(), message),
    };
    let opened = OpenOptions::new().create(true).append(true).open(log);
    // The message is already on standard error, so a failure to write the log is ignored.
    let _ = opened.and_then(|mut file| writeln!(file, "{line}"));
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// File name with which the program is called as an OCI runtime.
pub const NAME: &str = "dockbridge-runtime";
/// Annotation with our version in the answer to `features`.
pub const VERSION: &str = "io.dockbridge.runtime.version";
/// Environment variable that passes the container's id to an inner call of dockbridge-runtime.
pub(super) const CONTAINER: &str = "DOCKBRIDGE_RUNTIME_CONTAINER";
/// The commands that are needed to end a container. With cgroup v1, a paused container cannot end before `resume`.
const ENDS: [&str; 4] = ["delete", "kill", "resume", "state"];
const SHELL: &str = "/bin/sh";
/// Exists only on hosts that have cgroup v2 and not v1.
const CGROUP_V2: &str = "/sys/fs/cgroup/cgroup.controllers";
/// The directories of programs if `PATH` is not set.
const USUAL_PATH: &str = "/bin:/usr/bin";
const DEFAULT: &str = "runc";
const LARGEST_LOG: u64 = 64 << 20;
/// Maximum size in bytes of the file that `--process` names.
const MAX_PROCESS: u64 = 16 << 20;
