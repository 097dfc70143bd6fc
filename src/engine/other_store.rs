//! Finds containers of another image store in Docker's own files, below the engine's data root. If somebody has
//! switched an engine's image store, the engine neither lists nor stops containers of the old store, so these look
//! removed.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;

use crate::{
    concurrency::blocking::blocking,
    host::{file, processes::Processes},
    model::{
        engine::{EngineInfo, OtherStore},
        label,
    },
};

/// The image store with the most containers that the engine does not list. None if Docker's readable files show
/// no container of another image store.
pub(super) async fn find(engine: &EngineInfo) -> Option<OtherStore> {
    let (directory, own) = (engine.root_dir.join("containers"), engine.storage_driver.clone());
    blocking(move || read(&directory, &own, &Processes::new("/proc"))).await
}

fn read(directory: &Path, own: &str, processes: &Processes) -> Option<OtherStore> {
    let mut stores = BTreeMap::<String, OtherStore>::new();
    for entry in directory.read_dir().ok()?.flatten() {
        let path = entry.path().join("config.v2.json");
        let Ok(Some(text)) = file::read_if_present(&path, LARGEST_FILE) else { continue };
        let Ok(container) = serde_json::from_slice::<Container>(&text) else { continue };
        let Container { driver, state, config } = container;
        if driver.is_empty() || driver == own {
            continue;
        }
        let store =
            stores.entry(driver.clone()).or_insert(OtherStore { driver, ..OtherStore::default() });
        let kind = config.labels.as_ref().and_then(|labels| labels.get(label::TYPE));
        // The recorded pid may belong to another process, for example after a power cut.
        let runs = processes.is_in_cgroup(state.pid, &entry.file_name().to_string_lossy());
        store.containers += 1;
        store.pods += usize::from(kind.is_some_and(|kind| kind == label::TYPE_SANDBOX));
        store.running += usize::from(state.running && runs);
    }
    stores.into_values().max_by_key(|store| store.containers)
}

/// The fields of Docker's `config.v2.json` that show a container's image store, state and labels.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Container {
    driver: String,
    state: State,
    config: Config,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct State {
    running: bool,
    pid: u32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Config {
    labels: Option<BTreeMap<String, String>>,
}

/// The size limit of a `config.v2.json` in bytes. The labels that dockbridge sets may have several MiB.
const LARGEST_FILE: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn containers_of_another_driver_are_counted() {
        let (root, proc) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let process = proc.path().join("7");
        fs::create_dir(&process).unwrap();
        fs::write(process.join("cgroup"), "4:cpu:/kubepods/podx/of-a\n").unwrap();
        for (id, driver, pid, kind) in [
            ("of-a", "overlay2", 7, "podsandbox"),
            // The pid of this container now belongs to another process.
            ("of-b", "overlay2", 7, "container"),
            ("of-c", "overlay2", 8, "container"),
            ("of-d", "overlayfs", 8, "podsandbox"),
            ("of-e", "", 7, "container"),
        ] {
            let directory = root.path().join(id);
            fs::create_dir(&directory).unwrap();
            let text = serde_json::json!({
                "Driver": driver, "State": { "Running": true, "Pid": pid },
                "Config": { "Labels": { "io.kubernetes.docker.type": kind } },
            });
            fs::write(directory.join("config.v2.json"), text.to_string()).unwrap();
        }
        fs::create_dir(root.path().join("without-a-file")).unwrap();
        fs::create_dir(root.path().join("garbage")).unwrap();
        fs::write(root.path().join("garbage/config.v2.json"), "{").unwrap();
        let processes = Processes::new(proc.path());
        let found = read(root.path(), "overlayfs", &processes);
        let of = |driver: &str, containers, pods, running| {
            Some(OtherStore { driver: driver.to_owned(), containers, pods, running })
        };
        assert_eq!(found, of("overlay2", 3, 1, 1));
        assert_eq!(read(root.path(), "overlay2", &processes), of("overlayfs", 1, 1, 0));
        assert_eq!(read(&root.path().join("none"), "overlay2", &processes), None);
    }
}
