//! Calls that outlive their caller, blocking work, locks and other values by name, a limit of connections,
//! pauses between attempts, and frozen containers.
//!
//! tonic drops a handler at the client's deadline. A call that changes Docker or the network must not stop
//! half-way then: it runs as a separate task for which the handler waits, and a repeated call joins the
//! running one ([`single_flight::SingleFlight`]). [`keyed_locks::KeyedLocks`] separate two operations on
//! one pod. With cancellation tokens by name ([`named::Named`]), the waiting operation can cancel the
//! other. This module does not know what the calls do.

pub mod backoff;
pub mod blocking;
pub mod connection_limit;
pub mod keyed_locks;
pub mod named;
pub mod single_flight;
pub mod standstills;

#[cfg(test)]
mod tests;
