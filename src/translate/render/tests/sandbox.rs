//! Tests of rendering pods.

use std::sync::Arc;

use serde_json::{Value, json};

use super::records::{container_record, engine, exited, read_info, sandbox_record, status_of};
use crate::{
    model::{
        attachment::Attachment,
        network::NetworkMode,
        record::{ContainerRecord, Process, SandboxRecord},
        time::Nanos,
        user_namespace::{IdMapping, IdMappings},
    },
    translate::{
        parse::tests::sample,
        render::{container, sandbox},
    },
    wire::cri,
};

#[test]
fn a_ready_sandbox_has_its_request_and_its_addresses() {
    let (record, requested) = (sandbox_record(), sample::sandbox());
    let status = sandbox::status(&record);
    assert_eq!(status.id, "5".repeat(64));
    assert_eq!(status.metadata, requested.metadata);
    assert_eq!(status.state(), cri::PodSandboxState::SandboxReady);
    assert_eq!(status.created_at, 1_000_000_001);
    let network = status.network.unwrap();
    assert_eq!(network.ip, "10.1.0.7");
    assert_eq!(network.additional_ips, [cri::PodIp { ip: "fd00::7".to_owned() }]);
    assert_eq!((status.labels, status.annotations), (requested.labels, requested.annotations));
    assert_eq!(status.runtime_handler, "kata");
    let options = status.linux.unwrap().namespaces.unwrap().options.unwrap();
    assert_eq!(options.network(), cri::NamespaceMode::Pod);
    assert_eq!(options.pid(), cri::NamespaceMode::Container);
    assert_eq!(options.ipc(), cri::NamespaceMode::Node);
}

#[test]
fn users_and_mapped_mounts_are_shown_as_requested() {
    let range = |host, length| IdMapping { host, length };
    let users = IdMappings { uids: range(100_000, 65_536), gids: range(200_000, 65_536) };
    let shown = |host_id| vec![cri::IdMapping { host_id, container_id: 0, length: 65_536 }];
    let mut record = sandbox_record();
    let options = |record: &SandboxRecord| {
        sandbox::status(record).linux.unwrap().namespaces.unwrap().options.unwrap().userns_options
    };
    assert_eq!(options(&record), None);
    Arc::make_mut(&mut record.document).spec.namespaces.users = Some(users);
    let mode = cri::NamespaceMode::Pod.into();
    let expected = cri::UserNamespace { mode, uids: shown(100_000), gids: shown(200_000) };
    assert_eq!(options(&record), Some(expected));

    let mut record = container_record(Process::Created);
    let spec = &mut Arc::make_mut(&mut record.document).spec;
    spec.mounts[0].id_mappings = Some(users);
    spec.mounts[0].options = vec!["noexec".to_owned()];
    let mount = status_of(&record, None).mounts.swap_remove(0);
    assert_eq!((mount.uid_mappings, mount.gid_mappings), (shown(100_000), shown(200_000)));
    assert_eq!(mount.mount_options, ["noexec"]);
}

#[test]
fn a_list_and_a_status_agree() {
    let record = sandbox_record();
    let (status, item) = (sandbox::status(&record), sandbox::item(&record));
    assert_eq!(
        (status.id, status.metadata, status.state, status.created_at, status.runtime_handler),
        (item.id, item.metadata, item.state, item.created_at, item.runtime_handler)
    );
    assert_eq!((status.labels, status.annotations), (item.labels, item.annotations));

    let record = container_record(exited());
    let (status, item) = (status_of(&record, None), container::item(&record));
    assert_eq!(
        (status.id, status.metadata, status.state, status.created_at),
        (item.id, item.metadata, item.state, item.created_at)
    );
    assert_eq!(
        (status.labels, status.annotations, status.image_id, status.image),
        (item.labels, item.annotations, item.image_id, item.image)
    );
    assert_eq!(item.pod_sandbox_id, "5".repeat(64));
}

#[test]
fn a_sandbox_that_is_not_ready_has_no_address() {
    let ready = sandbox_record();
    let dead = SandboxRecord { process: Some(exited()), ..ready.clone() };
    let gone = SandboxRecord { process: None, ..ready.clone() };
    let detached = SandboxRecord { attachment: Some(Attachment::Released), ..ready };
    for record in [dead, gone, detached] {
        let status = sandbox::status(&record);
        assert_eq!(status.state(), cri::PodSandboxState::SandboxNotready);
        assert_eq!(status.network, Some(cri::PodSandboxNetworkStatus::default()));
        assert_eq!(status.metadata, sample::sandbox().metadata);
    }
}

#[test]
fn a_host_network_pod_has_no_address() {
    let mut record = sandbox_record();
    Arc::make_mut(&mut record.document).network = NetworkMode::Host;
    record.attachment = None;
    let status = sandbox::status(&record);
    assert_eq!(status.state(), cri::PodSandboxState::SandboxReady);
    assert_eq!(status.network.unwrap().ip, "");
    let options = status.linux.unwrap().namespaces.unwrap().options.unwrap();
    assert_eq!(options.network(), cri::NamespaceMode::Node);
}

#[test]
fn a_creation_time_is_never_zero() {
    let sandbox = SandboxRecord { created_at: Nanos::UNSET, ..sandbox_record() };
    let container =
        ContainerRecord { created_at: Nanos::UNSET, ..container_record(Process::Created) };
    assert_ne!(sandbox::status(&sandbox).created_at, 0);
    assert_ne!(sandbox::item(&sandbox).created_at, 0);
    assert_ne!(status_of(&container, None).created_at, 0);
    assert_ne!(container::item(&container).created_at, 0);
}

#[test]
fn the_verbose_sandbox_status_has_pid_and_network() {
    let record = sandbox_record();
    let info = read_info(&sandbox::info(&record, Some(&engine()), &Default::default()));
    assert_eq!(info["pid"], 4242);
    assert_eq!(info["netns"], "/run/netns/x");
    assert_eq!(info["networkResult"]["cniVersion"], "1.0.0");
    assert_eq!(info["runtime"], "kata");
    assert_eq!(info["config"]["metadata"]["name"], "web-0");
    let gone = SandboxRecord { process: None, attachment: None, ..record };
    let info = read_info(&sandbox::info(&gone, None, &Default::default()));
    assert_eq!((&info["pid"], &info["netns"]), (&json!(0), &Value::Null));
}
