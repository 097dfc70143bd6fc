//! Which silence of a pull is a stall. Downloads report every few hundred milliseconds, so a
//! silent one is stuck. Unpacking a large layer onto a slow disk can be silent for many minutes,
//! and engines with containerd's image store say nothing at all of it: that is patience, not a
//! stall.

use std::collections::HashMap;

/// How far the layers of a pull are, as the engine's messages tell.
#[derive(Default)]
pub(super) struct Transfer {
    layers: HashMap<String, Phase>,
}

/// How far a layer is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Bytes are to come.
    Downloading,
    /// All bytes are here; the engine may be unpacking it without a word.
    Here,
    /// The engine says it is unpacking.
    Unpacking,
    /// In the image store.
    Done,
}

impl Transfer {
    /// Takes in a message. Those without a layer are about the whole image.
    pub(super) fn note(&mut self, layer: &str, status: &str) {
        if let Some(phase) = Phase::of(status).filter(|_| !layer.is_empty()) {
            self.layers.insert(layer.to_owned(), phase);
        }
    }

    /// Whether the registry owes us bytes and nothing else explains a silence.
    pub(super) fn is_downloading(&self) -> bool {
        let any = |phase| self.layers.values().any(|&layer| layer == phase);
        let begun = !self.layers.is_empty();
        !begun || (any(Phase::Downloading) && !any(Phase::Unpacking))
    }
}

impl Phase {
    /// The phase a layer's status tells of; none for remarks about the tag or the digest.
    fn of(status: &str) -> Option<Self> {
        Some(match status {
            "Pulling fs layer" | "Waiting" | "Downloading" => Self::Downloading,
            _ if status.starts_with("Retrying") => Self::Downloading,
            "Verifying Checksum" | "Download complete" => Self::Here,
            "Extracting" => Self::Unpacking,
            "Pull complete" | "Already exists" => Self::Done,
            _ => return None,
        })
    }
}
