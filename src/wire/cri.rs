//! The CRI v1 messages and services, generated from `proto/api.proto`. In the generated messages, the items of some
//! lists and the statuses in an event stay encoded (`build.rs` says which). [`items`] decodes such a list.
//!
//! `tests/architecture/foreign_names.rs` lists the modules that may name these types.

use prost::{DecodeError, Message, bytes::Bytes};

pub use generated::*;

/// Decodes the items of a list that are still encoded.
pub fn items<T: Message + Default>(encoded: Vec<Bytes>) -> Result<Vec<T>, DecodeError> {
    encoded.into_iter().map(T::decode).collect()
}

/// Encodes a value for a field that holds encoded bytes.
pub fn encoded<T: Message>(message: &T) -> Bytes {
    message.encode_to_vec().into()
}

impl std::fmt::Debug for AuthConfig {
    /// Shows no credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthConfig")
            .field("server_address", &self.server_address)
            .finish_non_exhaustive()
    }
}

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "the comments are in proto/api.proto"
)]
mod generated {
    tonic::include_proto!("runtime.v1");
}
