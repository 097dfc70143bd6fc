//! `CgroupParent`: the pod's cgroup as the engine's cgroup driver spells it.

use super::error::PlanError;
use crate::model::engine::CgroupDriver;

/// The engine's `CgroupParent` for the parent a caller names; none for the engine's default.
///
/// With systemd, kubelet sends the whole path of the slice and the engine takes its last
/// component. A parent in the style of the other driver is refused: the pod would land in a
/// hierarchy that kubelet does not manage, without any error.
pub(super) fn cgroup_parent(
    stated: &str,
    driver: CgroupDriver,
) -> Result<Option<String>, PlanError> {
    let path = stated.trim_end_matches('/');
    let last = path.rsplit('/').next().unwrap_or(path);
    let refuse =
        |driver, remedy| Err(PlanError::CgroupParent { parent: stated.to_owned(), driver, remedy });
    match driver {
        _ if path.is_empty() => Ok(None),
        // Nothing can be limited there; the engine would ignore the parent as well.
        CgroupDriver::None => Ok(None),
        CgroupDriver::Systemd if last.ends_with(SLICE) => Ok(Some(last.to_owned())),
        CgroupDriver::Systemd => refuse("systemd", SET_SYSTEMD),
        CgroupDriver::Cgroupfs if last.ends_with(SLICE) => refuse("cgroupfs", SET_CGROUPFS),
        CgroupDriver::Cgroupfs => Ok(Some(path.to_owned())),
    }
}

/// How systemd names a cgroup that holds others.
const SLICE: &str = ".slice";
const SET_SYSTEMD: &str = "it is not a systemd slice; set cgroupDriver: systemd in the kubelet's \
                           configuration and restart it";
const SET_CGROUPFS: &str = "it is a systemd slice; set \
                            \"exec-opts\": [\"native.cgroupdriver=systemd\"] in the engine's \
                            daemon.json and restart it, or cgroupDriver: cgroupfs in the kubelet's";
