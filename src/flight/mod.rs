//! Side-effecting calls as tasks the daemon owns.
//!
//! tonic drops a handler at the client's deadline. Whatever changes Docker or the network must
//! not stop half-way because of that, so every mutating verb runs as a task of ours and the
//! handler only waits for it: [`call::Calls`] joins repeated calls to the running one,
//! [`lock::Locks`] keeps verbs on one pod from crossing.

pub mod call;
pub mod crowd;
pub mod interrupt;
pub mod lock;

#[cfg(test)]
mod tests;
