//! Metrics of image pulls.

use crate::{
    model::reference::ImageReference,
    telemetry::{
        operation::{Operation, Operations},
        registry::{RegisterMetrics, Registry},
    },
};

/// The metrics of image pulls. All clones of `ImageMetrics` share the counts.
#[derive(Clone, Debug, Default)]
pub struct ImageMetrics {
    pulls: Operations<1>,
}

impl ImageMetrics {
    pub(super) fn begin(&self, image: &ImageReference) -> Operation<1> {
        self.pulls.begin("pull", image.to_string(), [""])
    }
}

impl RegisterMetrics for ImageMetrics {
    fn register(&self, registry: &mut Registry) {
        self.pulls.register(
            registry,
            "dockbridge_image_pull_duration_seconds",
            &["result"],
            "Duration of image pulls; concurrent pulls of the same image with the same credentials count once",
        );
    }
}
