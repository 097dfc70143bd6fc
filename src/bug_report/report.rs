//! Collects the parts of the bug report and writes them one after another.

use std::{
    fs,
    io::{self, Write},
    path::Path,
    time::Duration,
};

use http::Method;
use tokio::runtime::{self, Runtime};

use crate::{
    admin::{
        client::{self, ClientError},
        endpoints,
    },
    check::host::examine,
    config::{redact::redact, resolve::Resolved},
    engine::lock::EngineLocks,
    error::chain,
    host::process::{self, Program},
};

/// Writes the report to `out`. `warnings` are warnings about the command line and the environment.
///
/// # Errors
/// `out` cannot be written to, or no tokio runtime can be started.
pub fn write(resolved: &Resolved, warnings: &[String], out: &mut impl Write) -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let settings = &resolved.settings;
    let (state_dir, run_dir) = (&settings.state_dir, &settings.run_dir);
    let check = || {
        runtime.block_on(examine(settings, &EngineLocks::default(), false, &mut |_| {})).findings
    };
    let mut part = |title: &str, text: String| {
        writeln!(out, "===== {title} =====\n{}\n", redact(text.trim_end()))
    };
    part("versions", versions())?;
    let warnings: String = warnings.iter().map(|warning| format!("# {warning}\n")).collect();
    part("settings", format!("{warnings}{resolved}"))?;
    part("check", check().to_string())?;
    for (title, path) in QUESTIONS {
        let answer = ask(run_dir, path);
        let silent = answer.is_err();
        part(title, answer.unwrap_or_else(|error| chain(&error)))?;
        // If a request gets no answer, the report skips all further requests.
        if silent {
            break;
        }
    }
    part("files of the state directory", files(state_dir))?;
    part("files of the run directory", files(run_dir))?;
    part("log", log(&runtime))
}

fn versions() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let own = env!("CARGO_PKG_VERSION");
    format!("dockbridge {own}\n{}{}", read("/proc/version"), read("/etc/os-release"))
}

/// The answer of the running dockbridge's admin server, without environment, commands or labels of containers.
fn ask(run_dir: &Path, path: &'static str) -> Result<String, ClientError> {
    let mut answer = Vec::new();
    client::run(run_dir, (Method::GET, path, String::new()), &mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn files(directory: &Path) -> String {
    let mut lines = Vec::new();
    if let Err(error) = list(directory, directory, &mut lines) {
        lines.push(format!("{}: {error}", directory.display()));
    }
    lines.sort();
    lines.join("\n")
}

fn list(root: &Path, directory: &Path, lines: &mut Vec<String>) -> io::Result<()> {
    // Files may be created and removed while dockbridge runs.
    for entry in fs::read_dir(directory)?.flatten() {
        let Ok(facts) = entry.metadata() else { continue };
        let path = entry.path();
        // `{:?}` quotes the name, because a file name may contain line breaks.
        let name = path.strip_prefix(root).unwrap_or(&path);
        match facts.is_dir() {
            true if directory == root => list(root, &path, lines)?,
            true => lines.push(format!("{name:?}/")),
            false => lines.push(format!("{name:?} {} bytes", facts.len())),
        }
    }
    Ok(())
}

fn log(runtime: &Runtime) -> String {
    let arguments = [
        "--no-pager",
        "--quiet",
        "--output=short-iso-precise",
        "--lines=5000",
        "--unit=dockbridge.service",
        "--unit=cri-docker.service",
        "--unit=cri-dockerd.service",
    ];
    let journal = Program::new(Path::new("journalctl"), &arguments, TIMEOUT);
    let journal = Program { output_limit: 64 << 20, ..journal };
    let asked = runtime.block_on(process::run(journal));
    match asked {
        Ok(ended) if !ended.stdout.is_empty() => ended.text(),
        Ok(ended) => {
            format!("{BY_HAND}: journalctl printed no log lines of dockbridge. {}", ended.stderr)
        }
        Err(error) => format!("{BY_HAND}: {}", chain(&error)),
    }
}

const QUESTIONS: [(&str, &str); 5] = [
    ("health", endpoints::HEALTH),
    ("readiness", endpoints::READY),
    ("running operations", endpoints::TASKS),
    ("state", endpoints::STATE),
    ("metrics", endpoints::METRICS),
];
const BY_HAND: &str = "add the log of dockbridge to the report by hand";
const TIMEOUT: Duration = Duration::from_secs(30);
