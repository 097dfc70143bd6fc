//! Runs one command of the OCI runtime. It applies the edits, and then runs the lower runtime: the one that the
//! container's file names, the one that `--dockbridge-runtime` names, or runc.
//!
//! The lower runtime may run this program again, for example if a site's own wrapper does it for all
//! containers. The inner call finds the container's id in its environment and only runs runc.

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
        error::HostError,
        file::{self, Durability},
        process_tree, umask,
    },
};

/// Whether the program is called as the runtime: by its name, or by its command. Returns the words for the
/// runtime.
pub fn words_for_runtime(words: &[OsString]) -> Option<Vec<OsString>> {
    let name = words.first().and_then(|word| Path::new(word).file_name());
    if name == Some(OsStr::new(NAME)) {
        return Some(words.iter().skip(1).cloned().collect());
    }
    let is_command = words.get(1).is_some_and(|word| word == "runtime");
    is_command.then(|| words.iter().skip(2).cloned().collect())
}

/// Runs the command to its end. If nothing has to be unmounted after it, this process becomes the lower
/// runtime.
pub fn execute(words: Vec<OsString>, environment: &dyn Fn(&str) -> Option<String>) -> ExitCode {
    // runc sets a umask for `create`, but its `exec` keeps the inherited one. dockerd 29 has 0 (moby#52892),
    // and a containerd that it starts inherits it.
    umask::restrict();
    let line = CommandLine::read(words);
    if line.command.is_empty() {
        // Printed for people who ask for the version or the help. Programs read the output, which comes
        // from the runtime.
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
        // The mark of a restored container that was never started.
        directory.take_restored(&line.id)?;
        if let Some(dump) = directory.restore(&line.id)? {
            return restore(line, directory, &dump).inspect_err(|_| unmount(line, directory));
        }
    }
    if line.command == "delete" {
        restore::run::remove_filter(line, &directory.filter(&line.id), &|line| succeeds(line))?;
    }
    match line.command.as_str() {
        // A restored container already runs.
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

/// Restores a container instead of creating it. The next start is a fresh one, or gets the checkpoint again from the
/// server if this one fails.
fn restore(
    line: &CommandLine,
    directory: &EditsDirectory,
    dump: &Path,
) -> Result<ExitCode, OciRuntimeError> {
    create::prepare(directory, &line.id, &line.bundle)?;
    // The server may put the checkpoint there again while this process runs.
    let own = dump.with_file_name(format!("taken-{}", process::id()));
    fs::rename(dump, &own).map_err(|e| HostError::new("start from the checkpoint in", dump, e))?;
    let restored = restore_from(line, directory, &own);
    if let Err(error) = fs::remove_dir_all(&own) {
        // The server removes it after the start.
        report(line.log.as_deref(), line.is_log_json, &format!("{}: {error}", own.display()));
    }
    restored
}

fn restore_from(
    line: &CommandLine,
    directory: &EditsDirectory,
    dump: &Path,
) -> Result<ExitCode, OciRuntimeError> {
    let (limit, begun) = (restore::run::time_limit(dump), Instant::now());
    let restoring = prepare_restore((line.clone(), directory.filter(&line.id)), dump, limit)?;
    let left = limit.saturating_sub(begun.elapsed());
    let ended = process_tree::run_within(&mut command(&restoring), left)
        .map_err(|source| failed_to_run(line, source))?;
    if ended.is_some_and(|ended| ended.success()) {
        directory.mark_restored(&line.id)?;
        return Ok(ExitCode::SUCCESS);
    }
    unmount(line, directory);
    let log = file::read_text(&dump.join("restore.log"), LARGEST_LOG);
    let reason = match (ended, log) {
        // CRIU did not run, and the lower runtime has reported why.
        (Some(ended), Err(_)) => return Ok(code(ended)),
        (Some(_), Ok(log)) => criu_log::reason(&log, ""),
        (None, log) => criu_log::unfinished(&log.unwrap_or_default(), limit),
    };
    Err(OciRuntimeError::Restore(format!("CRIU cannot restore the checkpoint: {reason}")))
}

/// A volume may be on a disk that does not answer. The thread then ends with this process.
fn prepare_restore(
    (line, filter): (CommandLine, PathBuf),
    dump: &Path,
    limit: Duration,
) -> Result<CommandLine, OciRuntimeError> {
    let (sender, prepared) = channel();
    let dump = dump.to_owned();
    thread::spawn(move || {
        let done = restore::run::prepare(&line, (&dump, &filter), &|line| succeeds(line));
        // Nobody may wait for it any more.
        drop(sender.send(done));
    });
    prepared.recv_timeout(limit).unwrap_or_else(|_| {
        let cause = "a file system of this host did not answer (a dead network mount?)";
        let text = format!("the checkpoint was not prepared after {}s: {cause}", limit.as_secs());
        Err(OciRuntimeError::Restore(text))
    })
}

/// The line with the runtime that the container's file names. If its program is gone, as after an uninstall of
/// NVIDIA's toolkit, the registered runtime ends the container in its place.
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
    if is_there { Ok(line) } else { Err(failed_to_run(&line, missing())) }
}

/// Whether the system would find the program: at its path, or by its name in the folders of `PATH`.
fn is_there(program: &Path, environment: &dyn Fn(&str) -> Option<String>) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let folders = environment("PATH").unwrap_or_else(|| USUAL_PATH.to_owned());
    folders.split(':').any(|folder| Path::new(folder).join(program).is_file())
}

/// A failure is only reported: the exit code is that of the lower runtime, and the server unmounts again
/// when it removes the container.
fn unmount(line: &CommandLine, directory: &EditsDirectory) {
    if let Err(error) = directory.unmount(&line.id) {
        report(line.log.as_deref(), line.is_log_json, &chain(&error));
    }
}

/// Adds the capabilities, environment and groups of a container's edits to a command (`exec`).
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

/// Answers `features` with the answer of the lower runtime and our version, which the engine shows in its
/// `info`.
fn features(line: &CommandLine) -> Result<ExitCode, OciRuntimeError> {
    let failed = |source| failed_to_run(line, source);
    let output = command(line).stderr(Stdio::inherit()).output().map_err(failed)?;
    let mut text = output.stdout;
    if let Ok(mut document) = serde_json::from_slice::<Value>(&text)
        && let Some(object) = document.as_object_mut()
    {
        let annotations =
            object.entry("annotations").or_insert_with(|| Value::Object(Default::default()));
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.insert(VERSION.to_owned(), env!("CARGO_PKG_VERSION").into());
        }
        text = document.to_string().into_bytes();
    }
    io::stdout().write_all(&text).map_err(failed)?;
    Ok(code(output.status))
}

fn wait(line: &CommandLine) -> Result<ExitStatus, OciRuntimeError> {
    command(line).status().map_err(|source| failed_to_run(line, source))
}

/// Runs the lower runtime without its input.
fn succeeds(line: &CommandLine) -> Result<bool, OciRuntimeError> {
    let ended = command(line).stdin(Stdio::null()).status();
    Ok(ended.map_err(|source| failed_to_run(line, source))?.success())
}

/// Replaces this process with the lower runtime. Returns only when that fails.
fn replace(line: &CommandLine) -> OciRuntimeError {
    let failed = command(line).exec();
    // The report of this error must not end this process if nobody reads it.
    ignore_broken_pipes();
    failed_to_run(line, failed)
}

/// Docker writes a runtime with arguments as a line of a shell script, so the shell also splits them here.
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

fn failed_to_run(line: &CommandLine, source: io::Error) -> OciRuntimeError {
    OciRuntimeError::Runtime { runtime: runtime(line).to_string_lossy().into_owned(), source }
}

/// As in a shell: for a signal, the code is 128 plus its number.
fn code(status: ExitStatus) -> ExitCode {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode::from(u8::try_from(number).unwrap_or(1))
}

/// Reports an error of the runtime: to the file of `--log` in runc's format, because the engine reads it there,
/// and to standard error for people who run it by hand.
fn report(log: Option<&Path>, is_json: bool, message: &str) {
    let _ = writeln!(io::stderr(), "dockbridge-runtime: {message}");
    let Some(log) = log else { return };
    let line = match is_json {
        true => json!({"level": "error", "msg": format!("dockbridge-runtime: {message}"), "time": now()})
            .to_string(),
        false => format!("time=\"{}\" level=error msg={:?}", now(), message),
    };
    let opened = OpenOptions::new().create(true).append(true).open(log);
    // If the log cannot be written, there is no way to report that.
    let _ = opened.and_then(|mut file| writeln!(file, "{line}"));
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The name of the program when it is called as a runtime.
pub const NAME: &str = "dockbridge-runtime";
/// The annotation in the answer to `features`.
pub const VERSION: &str = "io.dockbridge.runtime.version";
/// The variable by which an outer call passes the container's id to an inner call.
pub(super) const CONTAINER: &str = "DOCKBRIDGE_RUNTIME_CONTAINER";
/// The commands that end a container. A paused one is resumed for its end.
const ENDS: [&str; 4] = ["delete", "kill", "resume", "state"];
const SHELL: &str = "/bin/sh";
/// Where a program is searched without `PATH`.
const USUAL_PATH: &str = "/bin:/usr/bin";
/// The runtime that engines use.
const DEFAULT: &str = "runc";
const LARGEST_LOG: u64 = 64 << 20;
/// Limits the arguments and environment of one process.
const MAX_PROCESS: u64 = 16 << 20;
