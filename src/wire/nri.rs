//! The NRI messages, generated from `proto/nri.proto`. Their calls travel over ttrpc (`nri`).

pub use generated::*;

/// Marks a removal: before a key that a plugin removes, and before the name of the plugin that did.
pub const REMOVED: char = '-';

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "the comments are in proto/nri.proto"
)]
mod generated {
    tonic::include_proto!("nri.pkg.api.v1alpha1");
}
