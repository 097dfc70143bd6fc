//! The NRI messages, generated from `proto/nri.proto`. Their calls travel over ttrpc (`nri`).

pub use generated::*;

/// Every message, field and number of the compiled interface, as an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/nri.descriptors"));

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "its comments live in proto/nri.proto"
)]
mod generated {
    tonic::include_proto!("nri.pkg.api.v1alpha1");
}
