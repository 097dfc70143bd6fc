//! The pod verbs: run, stop, remove; and recovering what a lost state directory knew.
//!
//! A sandbox is a pause container whose network namespace is pinned and connected. Connecting
//! is the last step, so a sandbox whose making was cut short is never ready, and whatever was
//! acquired is known either to [`undo::Undo`] (we live) or to the checkpoint (we died).

pub mod adopt;
pub mod error;
pub mod namespace;
pub mod recover;
pub mod remove;
pub mod resize;
pub mod room;
pub mod run;
pub mod stop;
pub mod undo;

#[cfg(test)]
mod tests;
