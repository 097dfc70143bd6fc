//! A node for tests: directories, CNI plugins that are shell scripts, and a network namespace if the test may
//! create one.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

use super::service::Network;
use crate::skips::{Lack, skip};
use crate::{
    config::{
        live::LiveSettings,
        resolve::resolve,
        settings::{CniSettings, Settings},
    },
    host::netns::{self, netns_thread::NetnsThread},
    model::{attachment::PodNetwork, sandbox::PodMetadata},
};

/// A node whose files are in a temporary directory.
pub(super) struct TestNode {
    dir: tempfile::TempDir,
}

impl TestNode {
    pub(super) fn new() -> Self {
        let node = Self { dir: tempfile::tempdir().unwrap() };
        for name in ["bin", "conf", "log"] {
            fs::create_dir(node.path(name)).unwrap();
        }
        node
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Installs a plugin that records every call. For all commands except VERSION, the plugin then runs `body`.
    pub(super) fn plugin(&self, name: &str, body: &str) {
        let log = self.path("log");
        let versions = r#"{"supportedVersions":["0.2.0","0.3.1","0.4.0","1.0.0","1.1.0"]}"#;
        let log = log.display();
        self.script(
            name,
            &format!(
                "input=$(cat)\n\
                 echo \"{name} $CNI_COMMAND\" >> {log}/calls\n\
                 if [ \"$CNI_COMMAND\" = VERSION ]; then echo '{versions}'; exit 0; fi\n\
                 printf %s \"$input\" > {log}/{name}.$CNI_COMMAND\n\
                 env | grep ^CNI_ | sort > {log}/{name}.$CNI_COMMAND.env\n\
                 {body}"
            ),
        );
    }

    /// Installs any script as a plugin. Renames the finished file, so that no reader sees an incomplete script.
    pub(super) fn script(&self, name: &str, body: &str) {
        let (draft, path) =
            (self.path("bin").join(format!(".{name}")), self.path("bin").join(name));
        fs::write(&draft, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(draft, path).unwrap();
    }

    /// Writes a network configuration with the named plugins.
    pub(super) fn list(&self, file: &str, version: &str, plugins: &[&str]) {
        let plugins: Vec<Value> = plugins.iter().map(|kind| json!({"type": kind})).collect();
        self.conf(file, &json!({"name": "pods", "cniVersion": version, "plugins": plugins}));
    }

    pub(super) fn conf(&self, file: &str, content: &Value) {
        let draft = self.path("conf").join("draft");
        fs::write(&draft, content.to_string()).unwrap();
        fs::rename(draft, self.path("conf").join(file)).unwrap();
    }

    /// The calls of plugins in order, without calls of VERSION.
    pub(super) fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("log/calls")).unwrap_or_default();
        text.lines().filter(|line| !line.ends_with("VERSION")).map(str::to_owned).collect()
    }

    /// How often plugins were called with VERSION.
    pub(super) fn version_calls(&self) -> usize {
        let text = fs::read_to_string(self.path("log/calls")).unwrap_or_default();
        text.lines().filter(|line| line.ends_with("VERSION")).count()
    }

    pub(super) fn forget_calls(&self) {
        let _ = fs::remove_file(self.path("log/calls"));
    }

    /// The standard input of a plugin in its last call with `command`.
    pub(super) fn input(&self, plugin: &str, command: &str) -> Value {
        let text = fs::read(self.path("log").join(format!("{plugin}.{command}"))).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// The `CNI_` variables of a plugin in its last call with `command`.
    pub(super) fn environment(&self, plugin: &str, command: &str) -> String {
        fs::read_to_string(self.path("log").join(format!("{plugin}.{command}.env"))).unwrap()
    }

    pub(super) fn bin_dirs(&self) -> Vec<PathBuf> {
        vec![self.path("nothing"), self.path("bin")]
    }

    pub(super) fn live(&self) -> LiveSettings {
        let cni = CniSettings {
            conf_dir: self.path("conf"),
            bin_dirs: self.bin_dirs(),
            cache_dir: self.path("cache"),
        };
        let defaults = resolve(Vec::new(), None, &|_| None).unwrap().settings;
        LiveSettings::new(Settings { cni, ..defaults })
    }

    pub(super) fn network(&self) -> Network {
        Network::start(self.live(), Duration::from_secs(300))
    }

    /// A pod whose `netns` is the path at which its namespace would be pinned.
    pub(super) fn pod(&self, digit: char) -> PodNetwork {
        let id = digit.to_string().repeat(64);
        PodNetwork {
            netns: self.path("run").join(&id),
            id: id.as_str().try_into().unwrap(),
            metadata: PodMetadata {
                name: "web".to_owned(),
                namespace: "shop".to_owned(),
                uid: "u-1".to_owned(),
                attempt: 0,
            },
            ports: Vec::new(),
            dns: None,
            annotations: std::collections::BTreeMap::new(),
            cgroup_parent: String::new(),
        }
    }
}

/// A new network namespace, pinned at a path until the value is dropped.
pub(super) struct PinnedNamespace(PathBuf);

impl PinnedNamespace {
    /// Returns `None` and marks the test as skipped if the test cannot create a network namespace.
    #[track_caller]
    pub(super) fn at(path: &Path) -> Option<Self> {
        let thread = NetnsThread::new()?;
        if netns::pin(thread.tid, path).is_err() {
            skip(Lack::SysAdmin);
            return None;
        }
        Some(Self(path.to_owned()))
    }
}

impl Drop for PinnedNamespace {
    fn drop(&mut self) {
        let _ = netns::unpin(&self.0);
    }
}

/// A shell command that prints a result with one address, like the last plugin of a chain.
pub(super) const ANSWER: &str =
    r#"echo '{"cniVersion":"1.0.0","ips":[{"address":"10.9.0.2/24"}]}'"#;
