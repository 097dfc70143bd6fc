//! Reports the mirrors through which Docker pulls images. Docker's setting `registry-mirrors` names mirrors of Docker
//! Hub. With Docker 28.0 or newer and containerd's image store, a `hosts.toml` file can name mirrors of any registry.

use std::{collections::BTreeMap, io, path::Path};

use serde::Deserialize;
use toml::{Spanned, Value};

use super::{finding::Finding, subject::Subject};
use crate::{
    host::file,
    model::engine::{ApiVersion, EngineInfo},
};

/// Lists the mirrors in the engine's `registry-mirrors` and in the `hosts.toml` files below `directory`.
pub(super) fn examine(engine: &EngineInfo, directory: &Path) -> Vec<Finding> {
    let (mut findings, mut mirrors) = (Vec::new(), Vec::new());
    let mut hub = engine.hub_mirrors.clone();
    let reads_hosts = engine.containerd_store && engine.api >= ApiVersion::HOSTS_FILES;
    let hub_has_its_own = directory.join(HUB).exists();
    for name in configured(directory) {
        let path = directory.join(&name).join(HOSTS_FILE);
        let read = file::read_text(&path, LONGEST_HOSTS_FILE).and_then(|text| Hosts::read(&text));
        match read {
            Ok(_) if !reads_hosts => {
                let seen = format!("Docker's pulls ignore {}: {NEEDS_CONTAINERD}", path.display());
                findings.push(Finding::ok(Subject::Registries, seen));
            }
            Ok(hosts) => {
                // If a `hosts.toml` in use has `host` tables for Docker Hub, Docker ignores `registry-mirrors`.
                let is_hubs = name == HUB || (name == EVERY_OTHER && !hub_has_its_own);
                if is_hubs && !hosts.tried_first.is_empty() {
                    hub.clear();
                }
                mirrors.extend(told(&name, &hosts.mirrors_of(&name)));
            }
            Err(error) => {
                let seen = format!("cannot read the mirrors in {}: {error}", path.display());
                let advice = "correct the file, or run the check as root";
                findings.push(Finding::warn(Subject::Registries, seen, advice));
            }
        }
    }
    mirrors.extend(told(HUB, &hub));
    let seen = if mirrors.is_empty() { "no mirrors".to_owned() } else { mirrors.join("; ") };
    findings.insert(0, Finding::ok(Subject::Registries, seen));
    findings
}

fn configured(directory: &Path) -> Vec<String> {
    let mut paths = file::entries(directory).unwrap_or_default();
    paths.retain(|path| path.join(HOSTS_FILE).exists());
    paths.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
}

fn told(name: &str, mirrors: &[String]) -> Option<String> {
    let name = if name == EVERY_OTHER { "all other registries" } else { name };
    (!mirrors.is_empty()).then(|| format!("{name} through {}", mirrors.join(", ")))
}

struct Hosts {
    /// The hosts in the order of the file, and for each whether Docker may pull from it.
    tried_first: Vec<(String, bool)>,
    /// The host that Docker tries last, after those in `tried_first`; by default the registry itself.
    server: Option<String>,
}

impl Hosts {
    fn read(text: &str) -> io::Result<Self> {
        #[derive(Deserialize)]
        struct File {
            server: Option<String>,
            #[serde(default)]
            host: BTreeMap<Spanned<String>, Value>,
        }
        let unreadable = |error: toml::de::Error| io::Error::other(error.message().to_owned());
        let file: File = toml::from_str(text).map_err(unreadable)?;
        let mut hosts: Vec<_> = file.host.into_iter().collect();
        hosts.sort_by_key(|(url, _)| url.span().start);
        let tried_first =
            hosts.into_iter().map(|(url, host)| (url.into_inner(), may_pull(&host))).collect();
        Ok(Self { tried_first, server: file.server.filter(|server| !server.is_empty()) })
    }

    fn mirrors_of(self, registry: &str) -> Vec<String> {
        let first = self.tried_first.into_iter().filter(|(_, may_pull)| *may_pull);
        // If the registry has a port, the directory's name ends in the port, as `:5000` or `_5000_`.
        let host = registry.split(['_', ':']).next().filter(|host| !host.is_empty());
        let instead = self.server.filter(|server| !host.is_some_and(|host| server.contains(host)));
        first.map(|(url, _)| url).chain(instead).collect()
    }
}

/// If `capabilities` are missing or empty, Docker may pull from the host.
fn may_pull(host: &Value) -> bool {
    let able = host.get("capabilities").and_then(Value::as_array);
    able.is_none_or(|able| able.is_empty() || able.iter().any(|one| one.as_str() == Some("pull")))
}

/// Where Docker looks for settings and certificates of registries.
pub(super) const DIRECTORY: &str = "/etc/docker/certs.d";
const HOSTS_FILE: &str = "hosts.toml";
const LONGEST_HOSTS_FILE: u64 = 1 << 20;
/// The name of the directory for Docker Hub.
const HUB: &str = "docker.io";
/// The directory for registries that have no directory with their name.
const EVERY_OTHER: &str = "_default";
const NEEDS_CONTAINERD: &str =
    "only Docker 28.0 or newer with containerd's image store uses hosts.toml files";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{
        super::{finding::Severity, tests::info},
        *,
    };

    #[test]
    fn the_mirrors_in_force_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(directory.path().join(name)).unwrap();
            fs::write(directory.path().join(name).join("hosts.toml"), text).unwrap();
        };
        let told = |containerd_store| {
            let hub_mirrors = vec!["https://hub.lan/".to_owned()];
            let api = ApiVersion::HOSTS_FILES;
            let engine = EngineInfo { api, containerd_store, hub_mirrors, ..info() };
            let found = examine(&engine, directory.path());
            let warned = found.iter().filter(|one| one.severity == Severity::Warn).count();
            (found[0].seen.clone(), warned)
        };
        fs::create_dir_all(directory.path().join("with.certificates.only")).unwrap();
        assert_eq!(told(true), ("docker.io through https://hub.lan/".to_owned(), 0));
        write("registry.lan_5000_", "server = \"https://registry.lan\"\n[host.\"http://b:1\"]\n");
        write("_default", "server = \"https://cache.lan\"");
        let two = "[host.\"https://z\"]\ncapabilities = [\"pull\", \"resolve\"]\n\
                   [host.\"https://a\"]\n[host.\"https://p\"]\ncapabilities = [\"push\"]\n";
        write("docker.io", two);
        let seen = "all other registries through https://cache.lan; docker.io through https://z, \
                    https://a; registry.lan_5000_ through http://b:1";
        assert_eq!(told(true), (seen.to_owned(), 0));
        assert_eq!(told(false), ("docker.io through https://hub.lan/".to_owned(), 0));
        write("docker.io", "[host.");
        let (seen, warned) = told(true);
        assert!(seen.ends_with("docker.io through https://hub.lan/") && warned == 1, "{seen}");
    }
}
