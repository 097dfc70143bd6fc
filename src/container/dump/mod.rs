//! CheckpointContainer and CheckpointPod: saves the processes of running containers and the changes of their files
//! into archives.
//!
//! ```text
//! service ─▶ attempt: facts ─▶ order ─▶ a detached program: freeze all ─▶ each: runc and CRIU, copy the layer ─▶ thaw all
//!                                           └─ ended ─▶ attempt: thaw ─▶ archives ─▶ final names
//! ```
//!
//! dockbridge never kills the detached program, because CRIU's code runs inside the containers' processes: see
//! `docs/decisions/0046`. Once the caller no longer waits, the detached program skips the containers that it has not
//! begun to save. If dockbridge ends, the next dockbridge process waits for the detached program, thaws the containers,
//! and removes incomplete archives ([`leftovers`]).

mod archive;
mod attempt;
mod facts;
pub mod leftovers;
mod order;
mod rootfs_diff;
pub mod service;
pub mod work;
