//! `CgroupParent`: the pod's cgroup in the form of the engine's cgroup driver.

use super::error::PlanError;
use crate::model::engine::CgroupDriver;

/// The engine's `CgroupParent` for the requested parent. None for the engine's default.
///
/// With systemd, kubelet sends the whole path of the slice, and the engine needs its last component. A
/// parent in the form of the other driver is refused. Otherwise the pod would silently be in a hierarchy
/// that kubelet does not manage.
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
        // Nothing can be limited here, and the engine would ignore the parent.
        CgroupDriver::None => Ok(None),
        CgroupDriver::Systemd if last.ends_with(SLICE) => Ok(Some(last.to_owned())),
        CgroupDriver::Systemd => refuse("systemd", SET_SYSTEMD),
        CgroupDriver::Cgroupfs if last.ends_with(SLICE) => refuse("cgroupfs", SET_CGROUPFS),
        CgroupDriver::Cgroupfs => Ok(Some(path.to_owned())),
    }
}

/// The suffix of a systemd unit that contains other cgroups.
const SLICE: &str = ".slice";
const SET_SYSTEMD: &str = "it is not a systemd slice; set cgroupDriver: systemd in the kubelet's \
                           configuration and restart it";
const SET_CGROUPFS: &str = "it is a systemd slice; set \
                            \"exec-opts\": [\"native.cgroupdriver=systemd\"] in the engine's \
                            daemon.json and restart it, or cgroupDriver: cgroupfs in the kubelet's";
