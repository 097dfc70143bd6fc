//! NRI plugins: whether they can connect, which of them dockbridge starts, and whether this host lets
//! dockbridge do everything that plugins may request.

use std::{
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::Path,
    process,
};

use super::{finding::Finding, paths, subject::Subject};
use crate::{
    config::settings::NriSettings,
    host::{capability::listening_pid, file},
    model::{engine::EngineInfo, sandbox::DEFAULT_HANDLER},
    nri::launcher::{installed, is_executable},
};

/// The findings about NRI plugins; none if NRI is off. `server` is the pid of the dockbridge that serves the engine.
pub(super) fn examine(
    settings: &NriSettings,
    engine: Option<&EngineInfo>,
    server: Option<u32>,
) -> Vec<Finding> {
    if !settings.enabled {
        return Vec::new();
    }
    let (mut findings, mut started) = (Vec::new(), Vec::new());
    let mut files = file::entries(&settings.plugin_dir).unwrap_or_default();
    files.retain(|path| !path.is_dir());
    for path in files {
        match judge(settings, &path) {
            Ok(name) => started.push(name),
            Err(why) => {
                let seen =
                    format!("dockbridge does not start the plugin {}: {why}", path.display());
                findings.push(Finding::warn(Subject::Nri, seen, MEND_PLUGIN));
            }
        }
        findings.extend(exposed(&path));
    }
    findings.extend(exposed(&settings.plugin_dir));
    findings.extend(socket(&settings.socket, server, engine.is_some()));
    if engine.is_some_and(|engine| engine.serves_nri) {
        findings.push(Finding::warn(Subject::Nri, SERVED_TWICE, ONE_OF_BOTH));
    }
    findings.extend(missing(settings, &started));
    if let Some(Err(reason)) = engine.map(|engine| engine.edits_runtime(DEFAULT_HANDLER)) {
        let seen = format!(
            "in pods without a runtime handler, NRI plugins can change only limits: {reason}"
        );
        findings.push(Finding::warn(Subject::Nri, seen, SETUP));
    }
    let started = if started.is_empty() { "none".to_owned() } else { started.join(", ") };
    let (socket, directory) = (settings.socket.display(), settings.plugin_dir.display());
    let seen = format!(
        "NRI plugins connect to {socket}; plugins that dockbridge starts from {directory}: {started}"
    );
    findings.insert(0, Finding::ok(Subject::Nri, seen));
    findings
}

fn judge(settings: &NriSettings, path: &Path) -> Result<String, String> {
    if !is_executable(path) {
        return Err("the file is not executable".to_owned());
    }
    installed(settings, path).map(|plugin| plugin.full_name())
}

/// A plugin runs as root, so users other than root must not be able to change its file.
fn exposed(path: &Path) -> Option<Finding> {
    let facts = path.metadata().ok()?;
    if facts.uid() == 0 && facts.mode() & 0o022 == 0 {
        return None;
    }
    let seen = format!(
        "users other than root can change {}, and dockbridge runs the executables in the plugin directory \
         as root",
        path.display()
    );
    Some(Finding::warn(Subject::Nri, seen, PROTECT))
}

/// Judges NRI's socket. While the engine is silent, `server` is unknown, so any listener may be dockbridge.
fn socket(path: &Path, server: Option<u32>, engine_answered: bool) -> Option<Finding> {
    let seen = match path.symlink_metadata() {
        Ok(entry) if entry.file_type().is_socket() => {
            let listener = listening_pid(path)?;
            if !engine_answered || Some(listener) == server || listener == process::id() {
                return None;
            }
            format!("process {listener} already listens on the NRI socket {}", path.display())
        }
        Ok(_) => format!("{} exists and is not a socket", path.display()),
        Err(_) => {
            let (place, error) = paths::try_writing(path.parent()?).err()?;
            format!("no socket can be created in {}: {error}", place.display())
        }
    };
    Some(Finding::warn(Subject::Nri, seen, OTHER_SOCKET))
}

fn missing(settings: &NriSettings, started: &[String]) -> Option<Finding> {
    let is_there = |wanted: &&String| {
        let named = |full: &String| full.split_once('-').is_some_and(|(_, name)| name == *wanted);
        started.iter().any(|full| full == *wanted || named(full))
    };
    let missing: Vec<&str> =
        (settings.required.iter()).filter(|name| !is_there(name)).map(String::as_str).collect();
    if missing.is_empty() {
        return None;
    }
    let seen =
        format!("required NRI plugins that dockbridge does not start: {}", missing.join(", "));
    Some(Finding::warn(Subject::Nri, seen, CONNECT))
}

const MEND_PLUGIN: &str =
    "correct the plugin's file, or its configuration in --nri-config-dir, then restart dockbridge";
const PROTECT: &str =
    "run chown root and chmod go-w on that path: plugins run as root and can change every pod";
const OTHER_SOCKET: &str = "NRI plugins cannot connect to dockbridge: choose another path with --nri-socket, or if permission is denied, run dockbridge as root";
const SERVED_TWICE: &str = "Docker also serves NRI plugins (nri-opts): a plugin that is connected to both Docker \
                            and dockbridge changes each container twice, and Docker reports no pods to plugins";
const ONE_OF_BOTH: &str =
    "remove nri-opts from /etc/docker/daemon.json, then run: systemctl reload docker";
const CONNECT: &str = "install each required plugin in --nri-plugin-dir and restart dockbridge, or start the \
                       plugin yourself; no pod and no container starts until all required plugins are connected";
const SETUP: &str = "`dockbridge setup` registers dockbridge-runtime, which lets NRI plugins change more than \
                     limits if Docker is 24.0 or newer and its default runtime is runc or runs runc";
