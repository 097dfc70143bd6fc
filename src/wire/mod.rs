//! The two foreign tongues as they come: CRI's messages and Docker's bodies. No logic here;
//! `translate` is where they become `model` and back.

pub mod cri;
pub mod docker;
