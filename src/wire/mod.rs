//! The messages of the protocols as they are: CRI's over gRPC, Docker's JSON bodies, and those that NRI
//! plugins are sent. No logic here; `translate` turns them into `model` and back.

pub mod cri;
pub mod docker;
pub mod nri;
pub mod nullable;
