//! Tests of the request that creates an unstarted container.

use std::collections::BTreeSet;

use super::unstarted;
use crate::{model::id::ImageId, wire::docker::MountType};

#[test]
fn volumes_are_replaced_by_tmpfs() {
    let image = ImageId::try_from(format!("sha256:{}", "a".repeat(64))).unwrap();
    let volumes = ["/data", "/data/", "/models//big/../7b", "/"].map(str::to_owned);
    let body = unstarted(&image, &BTreeSet::from(volumes), "mark");
    let mounts = body.host_config.unwrap().mounts.unwrap();
    let targets: Vec<_> = mounts.iter().map(|mount| mount.target.as_deref().unwrap()).collect();
    assert_eq!(targets, ["/data", "/models/7b"]);
    assert!(mounts.iter().all(|mount| mount.typ == Some(MountType::TMPFS)));
}
