//! The CRI log files of containers, written from what the engine recorded.
//!
//! The engine keeps the lines of each container in files of its own. What follows them here
//! writes the CRI's form of each line to the kubelet's path, once, in order, and lets the kubelet
//! rotate. What is written is a pure function of what the engine recorded: after a crash the
//! length of our own file tells how far we had come.
//!
//! ```text
//! room ──commands──▶ pump ──a log for a turn──▶ turn: follower (the engine's files)
//!   ▲                 ▲                              or relay and feed (the engine's API)
//!   └──progress───────┴─ tidings of files, rests that are over: roster
//! ```
//!
//! [`follower`] writes what the engine's files ([`generations`], [`entry`]) hold, [`feed`] what its
//! API tells; both make CRI lines ([`line`]) of it for the [`sink`]. [`position`] is what outlives
//! the process; where it is lost, the [`tail`] of the CRI file tells. [`link`] is the other format.

pub mod convert;
pub mod entry;
pub mod error;
pub mod feed;
pub mod follower;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod generations;
pub mod line;
pub mod link;
pub mod metrics;
pub mod place;
pub mod position;
pub mod room;
pub mod siblings;
pub mod sink;
pub mod tail;

mod command;
mod directories;
mod followed;
mod lent;
mod positions;
mod progress;
mod pump;
mod relay;
mod roster;
mod subject;
mod turn;
