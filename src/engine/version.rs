//! The API version that dockbridge has negotiated with the engine.
//!
//! Each ping negotiates the API version. If the engine may have been replaced by another engine, dockbridge
//! negotiates again before the next call.

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use tracing::debug;

use crate::model::engine::ApiVersion;

#[derive(Debug, Default)]
pub(super) struct NegotiatedVersion {
    minor: AtomicU16,
    /// False if the version must be negotiated before the next call.
    settled: AtomicBool,
}

impl NegotiatedVersion {
    pub(super) fn last(&self) -> ApiVersion {
        match self.minor.load(Ordering::Acquire) {
            0 => ApiVersion::OLDEST,
            minor => ApiVersion::new(minor),
        }
    }

    pub(super) fn invalidate(&self) {
        self.settled.store(false, Ordering::Release);
    }

    pub(super) fn settled(&self) -> Option<ApiVersion> {
        self.settled.load(Ordering::Acquire).then(|| self.last())
    }

    pub(super) fn settle(&self, version: ApiVersion) {
        let before = self.minor.swap(version.minor, Ordering::AcqRel);
        self.settled.store(true, Ordering::Release);
        if before != version.minor {
            debug!(api = %version, "docker API version negotiated");
        }
    }
}
