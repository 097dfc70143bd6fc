//! Calls that outlive their caller, blocking work, locks and other values by name, a limit of connections,
//! pauses between attempts, and frozen containers.
//!
//! tonic drops a handler at the client's deadline. A call that creates, starts, stops or removes a pod or container
//! must not stop half-way when its handler is dropped: it runs as a separate task for which the handler waits, and
//! a repeated call joins the running task ([`single_flight::SingleFlight`]). With [`keyed_locks::KeyedLocks`], an
//! operation waits until earlier operations that exclude it have released the lock of the same name.
//! With cancellation tokens by name ([`named::Named`]), an operation can cancel the operations for which it waits.

pub mod backoff;
pub mod blocking;
pub mod connection_limit;
pub mod freezes;
pub mod keyed_locks;
pub mod named;
pub mod single_flight;

#[cfg(test)]
mod tests;
