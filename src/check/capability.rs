//! Whether dockbridge and the engine have the capabilities that they need.

use std::path::Path;

use super::{finding::Finding, subject::Subject};
use crate::host::capability::{missing, oom_floor};

pub(super) fn examine(engine_socket: &Path) -> Vec<Finding> {
    vec![own(&missing()), protection(oom_floor(engine_socket))]
}

pub(super) fn own(missing: &[&str]) -> Finding {
    if missing.is_empty() {
        let seen = "the check has the capabilities for connecting pods to networks";
        Finding::ok(Subject::Capabilities, seen)
    } else {
        let missing = missing.join(" and ");
        let seen = format!(
            "the check runs without {missing}, which dockbridge needs to enter and to connect network \
             namespaces"
        );
        let advice = "run both dockbridge and the check as root in the host's namespaces";
        Finding::fail(Subject::Capabilities, seen, advice)
    }
}

/// Judges whether `floor`, the lowest `oom_score_adj` that the engine can set, is low enough for pods.
pub(super) fn protection(floor: i64) -> Finding {
    if floor <= -1000 {
        return Finding::ok(
            Subject::OomScore,
            "pods can be protected from the kernel's OOM killer",
        );
    }
    let seen = format!(
        "without the host's CAP_SYS_RESOURCE, the engine cannot lower OOM scores: dockbridge raises scores below \
         {floor} to {floor} (guaranteed pods and pause containers are less protected)"
    );
    Finding::warn(
        Subject::OomScore,
        seen,
        "nothing to do in CI; on a node, run the engine as root of the host",
    )
}
