//! Tests of the CRI messages about container images.

use super::records::{image_id, image_record, read_info};
use crate::{
    model::{image::FilesystemUsage, record::ImageRecord, time::Nanos},
    translate::render::image,
};

#[test]
fn an_image_has_its_user() {
    let user = |user: &str| {
        let record = ImageRecord { user: user.to_owned(), ..image_record(&["nginx:1"]) };
        let shown = image::image(&record, false);
        (shown.uid.map(|uid| uid.value), shown.username)
    };
    assert_eq!(user(""), (None, String::new()));
    assert_eq!(user("0"), (Some(0), String::new()));
    assert_eq!(user("1000:1000"), (Some(1000), String::new()));
    assert_eq!(user("nginx:www"), (None, "nginx".to_owned()));
    assert_eq!(user(":5"), (None, String::new()));
    assert_eq!(user("-1"), (None, "-1".to_owned()));
}

#[test]
fn an_image_never_echoes_the_request_and_always_has_a_size() {
    let empty = ImageRecord { size: 0, ..image_record(&["nginx:1"]) };
    let shown = image::image(&empty, true);
    assert_eq!((shown.id.as_str(), shown.size, shown.pinned), (image_id().as_str(), 1, true));
    assert_eq!(shown.repo_tags, ["nginx:1"]);
    assert_eq!(shown.repo_digests, ["nginx@sha256:00"]);
    assert_eq!(shown.spec, None);
    assert_eq!(read_info(&image::info(&empty))["imageSpec"]["config"]["Labels"]["a"], "b");
}

#[test]
fn images_and_layers_share_a_mount_point() {
    let usage = FilesystemUsage {
        mountpoint: "/var/lib/docker".into(),
        image_bytes: 10,
        inodes: Some(4),
        measured_at: Nanos::UNSET,
    };
    let answer = image::filesystem(&usage, 3, Nanos(9));
    let (images, layers) = (&answer.image_filesystems[0], &answer.container_filesystems[0]);
    assert_eq!(images.fs_id, layers.fs_id);
    assert_eq!(images.fs_id.as_ref().unwrap().mountpoint, "/var/lib/docker");
    assert_eq!((images.timestamp, images.used_bytes.unwrap().value), (9, 10));
    assert_eq!(images.inodes_used.unwrap().value, 4);
    assert_eq!(layers.inodes_used, images.inodes_used);
    assert_eq!(layers.used_bytes.unwrap().value, 3);
    let dated = FilesystemUsage { measured_at: Nanos(5), inodes: None, ..usage };
    let images = &image::filesystem(&dated, 3, Nanos(9)).image_filesystems[0];
    assert_eq!((images.timestamp, images.inodes_used), (5, None));
}
