//! Calls that outlive their caller, blocking work, locks by name, cancellations by name, a limit of
//! connections, pauses between attempts.
//!
//! tonic drops a handler at the client's deadline. What changes Docker or the network must not stop
//! half-way because of that: it runs as a task of ours that the handler waits for, and a repeated
//! call joins the running one ([`single_flight::SingleFlight`]). [`keyed_locks::KeyedLocks`] keep two
//! operations on one pod apart, [`cancellations::Cancellations`] let the one that waits cut short the
//! other. Nothing here knows what is called.

pub mod backoff;
pub mod blocking;
pub mod cancellations;
pub mod connection_limit;
pub mod keyed_locks;
pub mod single_flight;

#[cfg(test)]
mod tests;
