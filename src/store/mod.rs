//! What is true now: one writer fed by the engine's events, many readers.
//!
//! ```text
//! Store (handle) ──commands──▶ writer task ──publishes──▶ Snapshot ──▶ every read of CRI
//!                                ▲    ▲
//!            link: ping, info, ──┘    └── looks: one inspect per object at a time,
//!            events, lists                bounded, with a deadline each
//! ```
//!
//! An event or a list never says what is true, only what is worth a look; truth is the answer of
//! the latest inspect. So events may be lost, doubled, late or crossed, and after the next list
//! the store equals Docker all the same. A workload is shown once it has passed the `gate`. `look`, `facts` and `ledger` are that rule as pure
//! state machines; `writer`, `link` and `inspect` give them a socket and a clock.

pub mod changes;
pub mod error;
pub mod gate;
pub mod handle;
pub mod inquest;
pub mod settings;
pub mod snapshot;

mod command;
mod facts;
mod hidden;
mod index;
mod inspect;
mod lag;
mod ledger;
mod link;
mod look;
pub mod metrics;
mod outlet;
mod writer;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;
