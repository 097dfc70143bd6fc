//! Tests of rendering containers.

use std::sync::Arc;

use super::records::{
    container_record, exited, image_id, image_record, read_info, running, status_of,
};
use crate::{
    model::{
        record::{ContainerRecord, ImageRecord, Process},
        volume::MountedImage,
    },
    translate::{
        parse::{container::container_spec, tests::sample},
        render::{container, runtime},
    },
    wire::cri,
};

#[test]
fn an_image_mount_has_its_image() {
    let mut record = container_record(running());
    let document = Arc::make_mut(&mut record.document);
    for mount in &mut document.spec.mounts {
        mount.image = mount.image.as_ref().map(|_| "models:1".to_owned());
    }
    document.image_volumes = vec![MountedImage { image: image_id(), unpacked: true }];
    let mounts = status_of(&record, None).mounts;
    let images: Vec<_> = mounts.iter().filter_map(|mount| mount.image.as_ref()).collect();
    assert!(!images.is_empty());
    for image in images {
        assert_eq!(
            (image.image.as_str(), image.image_ref.as_str()),
            (image_id().as_str(), image_id().as_str())
        );
    }
}

#[test]
fn a_container_status_has_the_fields_of_the_request() {
    let requested = sample::container();
    let status = status_of(&container_record(running()), None);
    assert_eq!(status.metadata, requested.metadata);
    assert_eq!((status.labels, status.annotations), (requested.labels, requested.annotations));
    assert_eq!(status.mounts, requested.mounts);
    assert_eq!(status.resources.unwrap().linux, requested.linux.unwrap().resources);
    assert_eq!(status.log_path, "/var/log/pods/shop_web-0_6f2a/nginx/2.log");
    assert_eq!(status.image_id, image_id().as_str());
    assert_eq!(status.image_ref, "nginx@sha256:00");
    assert_eq!(status.stop_signal, requested.stop_signal);
    assert_eq!(status.image.unwrap().user_specified_image, "nginx:1.27");
    let user = status.user.unwrap().linux.unwrap();
    assert_eq!((user.uid, user.gid, user.supplemental_groups), (1000, 1001, vec![1001, 2000]));
}

/// kubelet up to 1.28 compares `image_ref` with the ids of images: if it were not the id, an image in use would seem
/// unused.
#[test]
fn an_older_kubelet_reads_the_image_id_from_a_list() {
    let item = container::item(&container_record(running()));
    assert_eq!(item.image_ref, image_id().as_str());
    assert_eq!(item.image_id, item.image_ref);
}

/// The user of a container that another program created is unknown.
#[test]
fn an_unknown_user_is_unset() {
    let mut record = container_record(running());
    Arc::make_mut(&mut record.document).user = None;
    assert_eq!(status_of(&record, None).user, None);
    assert!(runtime::features(None).supplemental_groups_policy);
}

#[test]
fn a_process_has_its_state_and_times() {
    let times = |process: Process| {
        let status = status_of(&container_record(process), None);
        (status.state(), status.started_at, status.finished_at, status.exit_code, status.reason)
    };
    use cri::ContainerState::{
        ContainerCreated as Created, ContainerExited as Exited, ContainerRunning as Running,
        ContainerUnknown as Unknown,
    };
    assert_eq!(times(Process::Created), (Created, 0, 0, 0, String::new()));
    assert_eq!(times(running()), (Running, 2_000_000_001, 0, 0, String::new()));
    assert_eq!(times(exited()), (Exited, 2, 3, 137, "OOMKilled".to_owned()));
    assert_eq!(times(Process::Unknown), (Unknown, 0, 0, 0, String::new()));
    assert_eq!(status_of(&container_record(exited()), None).message, "killed");
}

#[test]
fn an_image_has_its_requested_name() {
    let record = container_record(running());
    let name = |record: &ContainerRecord, image: Option<&ImageRecord>| {
        status_of(record, image).image.unwrap().image
    };
    let several = image_record(&["mirror.io/nginx:1", "nginx:1.27"]);
    assert_eq!(name(&record, Some(&several)), "nginx:1.27");
    let renamed = image_record(&["mirror.io/nginx:1"]);
    assert_eq!(name(&record, Some(&renamed)), "mirror.io/nginx:1");
    assert_eq!(name(&record, Some(&image_record(&[]))), "nginx@sha256:00");
    assert_eq!(name(&record, None), image_id().as_str());

    let mut adopted = record;
    let document = Arc::make_mut(&mut adopted.document);
    document.spec.image.clear();
    document.image_ref.clear();
    assert_eq!(name(&adopted, None), image_id().as_str());
    assert_eq!(container::item(&adopted).image.unwrap().image, image_id().as_str());
    assert_eq!(container::item(&adopted).image_ref, image_id().as_str());
}

#[test]
fn the_verbose_container_keeps_the_keys_tools_read() {
    let info = read_info(&container::info(&container_record(running())));
    assert_eq!(info["sandboxID"], "5".repeat(64));
    assert_eq!(info["pid"], 4242);
    assert_eq!(info["config"]["metadata"]["attempt"], 2);
}

#[test]
fn what_is_rendered_reads_back_the_same() {
    let (requested, record) = (sample::container(), container_record(running()));
    let status = status_of(&record, None);
    let again = cri::ContainerConfig {
        metadata: status.metadata,
        labels: status.labels,
        annotations: status.annotations,
        mounts: status.mounts,
        stop_signal: status.stop_signal,
        linux: Some(cri::LinuxContainerConfig {
            resources: status.resources.unwrap().linux,
            security_context: requested.linux.clone().unwrap().security_context,
        }),
        ..requested
    };
    let spec = container_spec(Some(&again), Some(&sample::sandbox())).unwrap();
    assert_eq!(spec, record.document.spec);
}
