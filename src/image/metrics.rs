//! Metrics of image pulls.

use std::collections::HashMap;

use crate::{
    engine::pull::PullProgress,
    model::reference::ImageReference,
    telemetry::{
        metric::Counter,
        operation::{Operation, Operations},
        registry::{RegisterMetrics, Registry},
    },
};

/// The metrics of image calls. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct ImageMetrics {
    pulls: Operations<1>,
    bytes: Counter,
}

impl ImageMetrics {
    pub(super) fn begin(&self, image: &ImageReference) -> Operation<1> {
        self.pulls.begin("pull", image.to_string(), [""])
    }

    pub(super) fn pulled_bytes(&self) -> PulledBytes {
        PulledBytes { bytes: self.bytes.clone(), layers: HashMap::new() }
    }
}

/// The bytes of one pull by layer: the engine reports the same figures repeatedly.
#[derive(Debug)]
pub(super) struct PulledBytes {
    bytes: Counter,
    layers: HashMap<String, u64>,
}

impl PulledBytes {
    pub(super) fn add(&mut self, progress: &PullProgress) {
        if progress.status != DOWNLOADING {
            return;
        }
        let counted = self.layers.entry(progress.layer.clone()).or_default();
        self.bytes.inc_by(progress.current.saturating_sub(*counted));
        *counted = progress.current.max(*counted);
    }
}

impl RegisterMetrics for ImageMetrics {
    fn register(&self, registry: &mut Registry) {
        self.pulls.register(
            registry,
            "dockbridge_image_pull_duration_seconds",
            &["result"],
            "Time of an image pull; concurrent pulls of the same image count once",
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
    //! Which bytes are counted.

    use super::ImageMetrics;
    use crate::engine::pull::PullProgress;

    #[test]
    fn repeated_progress_counts_once() {
        let metrics = ImageMetrics::default();
        let mut bytes = metrics.pulled_bytes();
        let reports = [("a", 10), ("a", 10), ("b", 5), ("a", 30), ("a", 0), ("a", 31)];
        for (layer, current) in reports {
            let (layer, status) = (layer.to_owned(), "Downloading".to_owned());
            bytes.add(&PullProgress { layer, status, current, total: 100 });
        }
        let (layer, status) = ("a".to_owned(), "Extracting".to_owned());
        bytes.add(&PullProgress { layer, status, current: 90, total: 100 });
        assert_eq!(metrics.bytes.get(), 36);
    }
}
