//! The NRI messages, generated from `proto/nri.proto`. The module `nri` sends and receives NRI messages over ttrpc.

pub use generated::*;

/// Marks a removal: before the removed key, and in the list of owners before the name of the plugin that removed it.
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
