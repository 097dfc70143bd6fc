//! Which images belong to kubelet, and that the list survives a restart.

use std::{fs, path::Path};

use super::KubeletImages;
use crate::{
    checkpoint::directory::Checkpoints,
    model::{id::ImageId, record::ImageRecord, reference::ImageReference},
};

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn image(tags: &[&str]) -> ImageRecord {
    ImageRecord {
        id: ImageId::try_from(format!("sha256:{HEX}")).unwrap(),
        repo_tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        repo_digests: vec![format!("busybox@sha256:{HEX}")],
        size: 1,
        user: String::new(),
        labels: std::collections::BTreeMap::new(),
        stop_signal: None,
        volumes: Default::default(),
        inspected: true,
    }
}

async fn kubelet_images(state: &Path) -> KubeletImages {
    KubeletImages::load(Checkpoints::open(state).unwrap()).await
}

fn name(text: &str) -> ImageReference {
    ImageReference::parse(text).unwrap()
}

#[tokio::test]
async fn kubelets_are_those_it_pulled_under_all_their_names() {
    let state = tempfile::tempdir().unwrap();
    let kubelet_images = kubelet_images(state.path()).await;
    let busybox = image(&["busybox:1"]);
    assert!(!kubelet_images.contains(&busybox), "nobody knows where it is from");
    kubelet_images.add(&busybox.id, &name("docker.io/library/busybox:1"), false).await;
    assert!(kubelet_images.contains(&busybox));
    assert!(kubelet_images.contains(&image(&[])), "its name was taken by a newer one");
    let tagged = image(&["busybox:1", "my/own:1"]);
    assert!(!kubelet_images.contains(&tagged), "somebody gave it a name");
    kubelet_images.add(&busybox.id, &name("my/own:1"), true).await;
    assert!(kubelet_images.contains(&tagged), "and then kubelet pulled that, too");
}

#[tokio::test]
async fn an_image_that_was_there_before_stays_foreign() {
    let state = tempfile::tempdir().unwrap();
    let kubelet_images = kubelet_images(state.path()).await;
    let busybox = image(&["busybox:1"]);
    kubelet_images.add(&busybox.id, &name("busybox:1"), true).await;
    assert!(!kubelet_images.contains(&busybox));
}

#[tokio::test]
async fn a_later_run_remembers_and_a_broken_file_owns_nothing() {
    let state = tempfile::tempdir().unwrap();
    let busybox = image(&["busybox:1"]);
    kubelet_images(state.path()).await.add(&busybox.id, &name("busybox:1"), false).await;
    assert!(kubelet_images(state.path()).await.contains(&busybox));
    let file = state.path().join("pulled-images.json");
    let mut bytes = fs::read(&file).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(&file, bytes).unwrap();
    assert!(!kubelet_images(state.path()).await.contains(&busybox));
    kubelet_images(state.path()).await.add(&busybox.id, &name("busybox:1"), false).await;
    fs::remove_file(&file).unwrap();
    assert!(!kubelet_images(state.path()).await.contains(&busybox));
}
