//! The CRI v1 messages and services, generated from `proto/api.proto`.
//!
//! Only `translate::parse`, `translate::render` and `rpc` may name these types; everything else
//! speaks `model`.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated code: its comments live in proto/api.proto"
)]

tonic::include_proto!("runtime.v1");

/// Every message, field and number of the compiled interface, as an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cri.descriptors"));

impl std::fmt::Debug for AuthConfig {
    /// Names only who the credential is for: the rest is secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthConfig")
            .field("server_address", &self.server_address)
            .finish_non_exhaustive()
    }
}
