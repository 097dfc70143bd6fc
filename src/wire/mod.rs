//! The messages of the protocols: CRI's over gRPC, Docker's JSON bodies, and those of NRI plugins. No logic.

pub mod cri;
pub mod docker;
pub mod lenient;
pub mod nri;
pub mod nullable;
