//! Tests stats while one file of the kernel is missing, empty or invalid. Without a file of one cgroup controller, the
//! figures of the other controllers remain. The rendered messages have the fields that kubelet uses without a check.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{ID, TREES, container, read, sandbox};
use crate::{
    host::cgroup::Cgroups,
    model::stats::{ContainerReading, Detail, PodReading},
    stats::{
        collector::{Collector, ReadContext},
        pods::{PodTarget, parents},
        read::file::Files,
        service::Stats,
    },
    translate::render::stats,
};

/// A copy of a cgroup tree, which the test may damage.
fn copied(tree: &str) -> (tempfile::TempDir, Vec<PathBuf>) {
    let root = tempfile::tempdir().unwrap();
    let from = format!("tests/fixtures/cgroup/{tree}");
    let (mut open, mut files) = (vec![PathBuf::from(&from)], Vec::new());
    while let Some(directory) = open.pop() {
        let to = root.path().join(directory.strip_prefix(&from).unwrap());
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
                continue;
            }
            let copy = to.join(entry.file_name());
            // Mount points in the files of the tree must refer to the copy.
            let bytes = fs::read(entry.path()).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            fs::write(&copy, text.replace(&from, &root.path().display().to_string())).unwrap();
            files.push(copy);
        }
    }
    (root, files)
}

fn all(root: &Path) -> (Option<ContainerReading>, Option<PodReading>) {
    let collector: Arc<Collector> = Stats::new(Cgroups::from_proc(&root.join("proc"))).collector;
    let (one, pod) = (container(ID, 42), sandbox("6f2a", "/p"));
    let target = PodTarget::among(&pod, &[Arc::clone(&one)], &parents(std::slice::from_ref(&pod)));
    let options = collector.read_options(Detail::Everything);
    let mut work = ReadContext { options: &options, files: Files::default() };
    (read(&collector, &one, Detail::Everything), collector.pod(&target, &mut work))
}

fn is_whole(reading: &ContainerReading) -> bool {
    let shown = stats::container(reading);
    let layer = shown.writable_layer.is_none_or(|layer| layer.used_bytes.is_some());
    shown.attributes.is_some_and(|attributes| attributes.metadata.is_some()) && layer
}

#[test]
fn a_missing_or_damaged_file_costs_its_own_figure_only() {
    for tree in TREES {
        let (root, files) = copied(tree);
        assert!(all(root.path()).0.is_some_and(|one| one.group.memory.is_some()), "{tree}");
        let groups = root.path().join("cg");
        for file in &files {
            let text = fs::read(file).unwrap();
            for damage in [None, Some(""), Some("\0 max -1 = : 99999999999999999999999\n")] {
                match damage {
                    None => fs::remove_file(file).unwrap(),
                    Some(nonsense) => fs::write(file, nonsense).unwrap(),
                }
                let (one, pod) = all(root.path());
                let about = format!("{} {damage:?}", file.display());
                if let Some(pod) = &pod {
                    let shown = stats::pod(pod);
                    let linux = shown.linux.expect("linux");
                    assert!(shown.attributes.is_some_and(|all| all.metadata.is_some()), "{about}");
                    assert!(linux.network.is_none_or(|all| all.default_interface.is_some()));
                    assert!(pod.containers.iter().all(is_whole), "{about}");
                }
                assert!(one.as_ref().is_none_or(is_whole), "{about}");
                if file.starts_with(&groups) {
                    let group = one.expect("its group is there").group;
                    let name = file.file_name().unwrap().to_string_lossy();
                    assert!(group.cpu.is_some() || name.starts_with("cpu"), "{about}");
                    assert!(group.memory.is_some() || name.starts_with("memory"), "{about}");
                    assert!(group.pids.is_some() || name.starts_with("pids"), "{about}");
                }
                fs::write(file, &text).unwrap();
            }
        }
    }
}
