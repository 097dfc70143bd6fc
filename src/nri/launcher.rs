//! NRI plugins that dockbridge starts: executables named `NN-name` in a directory. Each plugin inherits one end of a
//! socket pair. If its connection ends, dockbridge starts the plugin again, after a pause of up to a minute.

use std::{
    ffi::OsStr,
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{
    net::UnixStream,
    time::{Instant, sleep},
};
use tracing::{info, warn};

use super::{plugin::check_name, service::Shared};
use crate::{
    concurrency::backoff::Backoff,
    config::settings::NriSettings,
    error::chain,
    host::{file, plugin_process::PluginProcess},
};

/// A plugin in the plugin directory. The file name of a plugin has its index and name.
#[derive(Clone, Debug)]
pub(crate) struct InstalledPlugin {
    pub(super) index: String,
    pub(super) name: String,
    pub(super) config: String,
}

impl InstalledPlugin {
    pub(crate) fn full_name(&self) -> String {
        format!("{}-{}", self.index, self.name)
    }
}

impl Shared {
    /// Starts the usable plugins of the plugin directory in the order of their indices, and keeps them running.
    pub(super) async fn launch_all(self: &Arc<Self>) {
        let directory = &self.settings.plugin_dir;
        let mut paths = file::entries(directory).unwrap_or_else(|error| {
            warn!(directory = %directory.display(), error = chain(&error), "cannot list the NRI plugins to start; starting no plugin");
            Vec::new()
        });
        paths.retain(|path| is_executable(path));
        let mut launched = Vec::new();
        for path in paths {
            match installed(&self.settings, &path) {
                Ok(plugin) => launched.push(self.keep_running(path, plugin)),
                Err(error) => warn!(plugin = %path.display(), error, "not starting an NRI plugin"),
            }
        }
        join_all(launched).await;
    }

    async fn keep_running(self: &Arc<Self>, path: PathBuf, plugin: InstalledPlugin) {
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        loop {
            let began = Instant::now();
            if let Err(error) = self.run(&path, &plugin).await {
                warn!(plugin = %path.display(), error = chain(&error), "cannot start an NRI plugin; retrying");
            }
            if began.elapsed() > LONGEST_PAUSE {
                backoff.succeeded();
            }
            tokio::select! {
                () = sleep(backoff.failed()) => {}
                () = self.shutdown.cancelled() => return,
            }
        }
    }

    /// Runs a plugin until its connection ends, then kills the plugin.
    async fn run(self: &Arc<Self>, path: &Path, plugin: &InstalledPlugin) -> io::Result<()> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let socket = UnixStream::from_std(ours)?;
        let environment = [
            ("NRI_PLUGIN_NAME", plugin.name.as_str()),
            ("NRI_PLUGIN_IDX", plugin.index.as_str()),
            ("NRI_PLUGIN_SOCKET", "3"),
        ];
        let _process = PluginProcess::start(path, &environment, theirs)?;
        info!(plugin = %path.display(), "NRI plugin started");
        Arc::clone(self).session(socket, Some(plugin.clone())).await;
        Ok(())
    }
}

/// The plugin of a file in the plugin directory. Fails if the plugin's name or configuration is unusable.
pub(crate) fn installed(settings: &NriSettings, path: &Path) -> Result<InstalledPlugin, String> {
    let file =
        path.file_name().and_then(OsStr::to_str).ok_or("the plugin's file name is not UTF-8")?;
    let (index, name) = file.split_once('-').unwrap_or(("", file));
    check_name(index, name)?;
    let config = configuration(&settings.config_dir, index, name)?;
    Ok(InstalledPlugin { index: index.to_owned(), name: name.to_owned(), config })
}

/// Reads the plugin's configuration from `<index>-<name>.conf`, otherwise from `<name>.conf`.
fn configuration(directory: &Path, index: &str, name: &str) -> Result<String, String> {
    for file in [format!("{index}-{name}.conf"), format!("{name}.conf")] {
        let path = directory.join(file);
        let read = file::read_if_present(&path, LONGEST_CONFIGURATION);
        if let Some(bytes) = read.map_err(|error| error.to_string())? {
            let not_text = |_| format!("the file {} is not UTF-8 text", path.display());
            return String::from_utf8(bytes).map_err(not_text);
        }
    }
    Ok(String::new())
}

/// Whether a file of the plugin directory is executable: dockbridge starts only executable files.
pub(crate) fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Longest configuration of a plugin in bytes, much longer than a plugin needs.
const LONGEST_CONFIGURATION: u64 = 1 << 20;
