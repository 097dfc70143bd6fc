//! Whose an image is, and that it is remembered.

use std::{fs, path::Path};

use super::Pulled;
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

async fn pulled(state: &Path) -> Pulled {
    Pulled::load(Checkpoints::open(state).unwrap()).await
}

fn name(text: &str) -> ImageReference {
    ImageReference::parse(text).unwrap()
}

#[tokio::test]
async fn kubelets_are_those_it_pulled_under_all_their_names() {
    let state = tempfile::tempdir().unwrap();
    let pulled = pulled(state.path()).await;
    let busybox = image(&["busybox:1"]);
    assert!(!pulled.owns(&busybox), "nobody knows where it is from");
    pulled.note(&busybox.id, &name("docker.io/library/busybox:1"), false).await;
    assert!(pulled.owns(&busybox));
    assert!(pulled.owns(&image(&[])), "its name was taken by a newer one");
    let tagged = image(&["busybox:1", "my/own:1"]);
    assert!(!pulled.owns(&tagged), "somebody gave it a name");
    pulled.note(&busybox.id, &name("my/own:1"), true).await;
    assert!(pulled.owns(&tagged), "and then kubelet pulled that, too");
}

#[tokio::test]
async fn what_was_there_before_stays_somebody_elses() {
    let state = tempfile::tempdir().unwrap();
    let pulled = pulled(state.path()).await;
    let busybox = image(&["busybox:1"]);
    pulled.note(&busybox.id, &name("busybox:1"), true).await;
    assert!(!pulled.owns(&busybox));
}

#[tokio::test]
async fn a_later_run_remembers_and_a_broken_file_owns_nothing() {
    let state = tempfile::tempdir().unwrap();
    let busybox = image(&["busybox:1"]);
    pulled(state.path()).await.note(&busybox.id, &name("busybox:1"), false).await;
    assert!(pulled(state.path()).await.owns(&busybox));
    let file = state.path().join("pulled-images.json");
    let mut bytes = fs::read(&file).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(&file, bytes).unwrap();
    assert!(!pulled(state.path()).await.owns(&busybox));
    pulled(state.path()).await.note(&busybox.id, &name("busybox:1"), false).await;
    fs::remove_file(&file).unwrap();
    assert!(!pulled(state.path()).await.owns(&busybox));
}
