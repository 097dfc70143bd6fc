//! The NRI messages, generated from `proto/nri.proto`. The module `nri` sends and receives NRI messages over ttrpc.

pub use generated::*;

/// The mark of a removal in NRI messages. This mark precedes the removed key, and the plugin's name in the list of
/// owners.
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
