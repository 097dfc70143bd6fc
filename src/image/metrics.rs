//! What is counted of pulls.

use std::collections::HashMap;

use super::error::ImageError;
use crate::{
    engine::pull::PullProgress,
    error::Kind,
    model::reference::ImageReference,
    telemetry::{
        metric::Counter,
        operation::{OK, Operation, Operations},
        registry::{RegisterMetrics, Registry},
    },
};

/// The metrics of the image verbs. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct ImageMetrics {
    pulls: Operations<1>,
    bytes: Counter,
}

impl ImageMetrics {
    /// A transfer begins.
    pub(super) fn begin(&self, image: &ImageReference) -> Transfer {
        Transfer(self.pulls.begin("pull", image.to_string(), [""]))
    }

    /// For one pull.
    pub(super) fn volume(&self) -> Volume {
        Volume { bytes: self.bytes.clone(), layers: HashMap::new() }
    }
}

/// A transfer until its end.
#[derive(Debug)]
pub(super) struct Transfer(Operation<1>);

impl Transfer {
    /// It has ended.
    pub(super) fn finish(self, error: Option<&ImageError>) {
        let failure = error.map(ImageError::kind);
        self.0.finish(failure.map_or(OK, Kind::word), failure);
    }
}

/// How much a pull has brought, by layer: engines say how far they are, again and again.
#[derive(Debug)]
pub(super) struct Volume {
    bytes: Counter,
    layers: HashMap<String, u64>,
}

impl Volume {
    pub(super) fn note(&mut self, progress: &PullProgress) {
        if progress.status != DOWNLOADING {
            return;
        }
        let far = self.layers.entry(progress.layer.clone()).or_default();
        self.bytes.inc_by(progress.current.saturating_sub(*far));
        *far = progress.current.max(*far);
    }
}

impl RegisterMetrics for ImageMetrics {
    fn register(&self, registry: &mut Registry) {
        self.pulls.register(
            registry,
            "dockbridge_image_pull_duration_seconds",
            &["result"],
            "Time of an image pull; equal pulls at the same time are one",
        );
        registry.register(
            "dockbridge_image_pull_bytes_total",
            "Compressed bytes of image layers pulled, as Docker reports them",
            &self.bytes,
        );
    }
}

const DOWNLOADING: &str = "Downloading";

#[cfg(test)]
mod tests {
    //! Which bytes count.

    use super::ImageMetrics;
    use crate::engine::pull::PullProgress;

    #[test]
    fn what_is_told_again_counts_once() {
        let metrics = ImageMetrics::default();
        let mut volume = metrics.volume();
        let told = [("a", 10), ("a", 10), ("b", 5), ("a", 30), ("a", 0), ("a", 31)];
        for (layer, current) in told {
            let (layer, status) = (layer.to_owned(), "Downloading".to_owned());
            volume.note(&PullProgress { layer, status, current, total: 100 });
        }
        let (layer, status) = ("a".to_owned(), "Extracting".to_owned());
        volume.note(&PullProgress { layer, status, current: 90, total: 100 });
        assert_eq!(metrics.bytes.get(), 36);
    }
}
