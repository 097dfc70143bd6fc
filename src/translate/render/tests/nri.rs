//! Tests of the data about a container that NRI plugins get.

use std::sync::Arc;

use super::records::container_record;
use crate::{
    model::{
        container::Mount,
        record::{ContainerRecord, Process},
    },
    translate::render::nri::{ContainerView, container},
    wire::nri,
};

fn shown(record: &ContainerRecord) -> nri::Container {
    container(&ContainerView { record, resources: Default::default(), pod: None, engine: None })
}

/// An NRI plugin may put its own program before the command line, and then sends the whole command line back.
#[test]
fn plugins_get_the_command_line_of_the_image() {
    let command_line = vec!["/entry".to_owned(), "serve".to_owned()];
    let record = ContainerRecord { command_line, ..container_record(Process::Created) };
    assert_eq!(shown(&record).args, ["/entry", "serve"]);
}

#[test]
fn plugins_get_the_mounts_that_docker_makes() {
    let options = |record: &ContainerRecord| {
        let all = shown(record).mounts.into_iter();
        let cgroups: Vec<_> = all.filter(|it| it.destination == "/sys/fs/cgroup").collect();
        assert_eq!(cgroups.len(), 1, "{cgroups:?}");
        cgroups[0].options.clone()
    };
    let mut record = container_record(Process::Created);
    assert_eq!(options(&record), ["ro", "nosuid", "noexec", "nodev"]);
    let spec = &mut Arc::make_mut(&mut record.document).spec;
    spec.security.privileged = true;
    assert_eq!(options(&record), ["nosuid", "noexec", "nodev"]);
    let spec = &mut Arc::make_mut(&mut record.document).spec;
    let container_path = "/sys/fs/cgroup/".to_owned();
    spec.mounts.push(Mount { container_path, ..spec.mounts[0].clone() });
    let mounts = shown(&record).mounts.into_iter();
    assert_eq!(mounts.filter(|it| it.destination.starts_with("/sys/fs/cgroup")).count(), 1);
}
