//! The messages of both protocols as they are: CRI's over gRPC and Docker's JSON bodies. No logic here;
//! `translate` turns them into `model` and back.

pub mod cri;
pub mod docker;
