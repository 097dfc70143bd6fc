//! The gRPC server: the unix socket, the two CRI services, and gRPC's codes.
//!
//! The methods of the services parse, call other modules and render, in a few lines. Read `runtime` and `image` first.
//! The modules that carry out the calls return kinds of errors and not gRPC codes.

pub mod chunks;
pub mod cri_socket;
pub mod encoded_lists;
pub mod events;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod image;
pub mod layer;
pub mod listener;
pub mod metrics;
pub mod runtime;
pub mod server;
mod snapshots;
pub mod status;

mod authority_filter;
mod condition;
mod connection;
mod deadline;
mod lists;
mod v1alpha2;
