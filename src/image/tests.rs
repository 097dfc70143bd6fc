//! Tests rules of image calls without an engine: which names an image has, where images are stored, and the
//! texts of errors.

#![allow(clippy::string_slice, reason = "a test fails by panicking")]

use std::{collections::BTreeMap, path::PathBuf};

use super::remove::has_name;
use crate::{
    engine::{
        error::{Call, EngineError, PullFault, Subject},
        storage::image_directory,
    },
    error::{Failure, Kind},
    model::{
        engine::{ApiVersion, CgroupDriver, EngineInfo},
        id::ImageId,
        record::ImageRecord,
    },
};

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";

#[test]
fn an_image_has_its_names_and_its_id() {
    let image = record(&["busybox:1.36", "registry.test:5000/app:1"], &["busybox"]);
    let digest = format!("busybox@sha256:{OTHER}");
    for name in [
        HEX,
        &format!("sha256:{HEX}"),
        &HEX[..12],
        "busybox:1.36",
        "docker.io/library/busybox:1.36",
        "registry.test:5000/app:1",
        &digest,
        &format!("docker.io/library/{digest}"),
        &format!("busybox:whatever@sha256:{OTHER}"),
    ] {
        assert!(has_name(&image, name), "{name}");
    }
    for name in [
        "",
        OTHER,
        &HEX[..11],
        "0123",
        "busybox",
        "busybox:latest",
        "registry.test/app:1",
        "app:1",
        &format!("app@sha256:{OTHER}"),
        &format!("busybox@sha256:{HEX}"),
        "../containers/x",
    ] {
        assert!(!has_name(&image, name), "{name}");
    }
}

#[test]
fn a_tag_of_hexadecimal_digits_is_no_id() {
    let commit = format!("app:{}", &HEX[..40]);
    let whole = format!("app:{HEX}");
    let short = &HEX[..12];
    let image = record(&[&commit, &whole, &format!("{short}:latest")], &[]);
    let other = ImageRecord { id: ImageId::try_from(format!("sha256:{OTHER}")).unwrap(), ..image };
    for name in [&commit, &whole, short, &format!("docker.io/library/{commit}")] {
        assert!(has_name(&other, name), "{name}");
    }
    assert!(!has_name(&record(&[], &[]), &whole));
    assert!(!has_name(&record(&[], &[]), &commit));
}

#[tokio::test]
async fn images_are_where_the_store_in_use_keeps_them() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("docker");
    let gone = engine(root.join("gone/further"), false);
    assert_eq!(image_directory(&gone).await, home.path(), "the nearest visible directory");
    std::fs::create_dir(&root).unwrap();
    assert_eq!(image_directory(&engine(root.clone(), false)).await, root);
    assert_eq!(
        image_directory(&engine(root.clone(), true)).await,
        root,
        "containerd's is elsewhere"
    );
    let own = root.join("containerd/daemon");
    std::fs::create_dir_all(own.join("io.containerd.snapshotter.v1.made-up")).unwrap();
    assert_eq!(image_directory(&engine(root.clone(), true)).await, own);
    assert_eq!(
        image_directory(&engine(root.clone(), false)).await,
        root,
        "a graph driver is in use"
    );
}

#[test]
fn failures_have_the_form_kubelet_parses() {
    let pull = |fault| {
        Failure::from(EngineError::Pull {
            reference: "busybox:1".to_owned(),
            fault,
            message: "words".to_owned(),
        })
    };
    let unavailable = pull(PullFault::RegistryUnavailable);
    assert_eq!(unavailable.to_string(), "RegistryUnavailable: words");
    assert_eq!((unavailable.kind(), pull(PullFault::Other).kind()), (Kind::Unknown, Kind::Unknown));
    let in_use = EngineError::Conflict {
        call: Call { verb: "remove", subject: Subject::Image("x".to_owned()) },
        message: "words".to_owned(),
    };
    assert_eq!(Failure::from(in_use).kind(), Kind::FailedPrecondition);
}

fn record(tags: &[&str], repositories: &[&str]) -> ImageRecord {
    ImageRecord {
        id: ImageId::try_from(format!("sha256:{HEX}")).unwrap(),
        repo_tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        repo_digests: repositories.iter().map(|name| format!("{name}@sha256:{OTHER}")).collect(),
        size: 1,
        user: String::new(),
        labels: BTreeMap::new(),
        stop_signal: None,
        volumes: Default::default(),
        inspected: true,
    }
}

fn engine(root_dir: PathBuf, containerd_store: bool) -> EngineInfo {
    EngineInfo {
        version: "28.5.2".to_owned(),
        api: ApiVersion::NEWEST,
        cgroup_driver: CgroupDriver::Cgroupfs,
        cgroup_version: 2,
        root_dir,
        containerd_store,
        storage_driver: "made-up".to_owned(),
        runtimes: BTreeMap::new(),
        default_runtime: "runc".to_owned(),
        security_options: Vec::new(),
        log_driver: "json-file".to_owned(),
        live_restore: false,
        kernel: String::new(),
        containerd_socket: None,
        nftables: false,
        hub_mirrors: Vec::new(),
        serves_nri: false,
        cdi_spec_dirs: Vec::new(),
        warnings: Vec::new(),
        daemon_id: String::new(),
        other_store: None,
    }
}
