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
//! the store equals Docker all the same. `looks` and `facts` are that rule as pure state
//! machines; `writer` and `link` give them a socket and a clock.

#![allow(dead_code, reason = "the writer comes with the engine room")]

pub mod error;
pub mod handle;
pub mod settings;
pub mod snapshot;

mod command;
mod index;
mod look;
