//! Small typed doors to this machine's kernel and file system; the only `unsafe`.
//!
//! Everything here blocks unless its name says otherwise: call it from `spawn_blocking` when it
//! may touch a disk. Nothing here knows pods, plugins or Docker.

pub mod apparmor;
pub mod beneath;
pub mod capability;
pub mod cgroup;
pub mod clock;
pub mod descriptors;
pub mod disk;
pub mod error;
pub mod file;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod heap;
mod inotify;
pub mod lock;
pub mod mounts;
pub mod netns;
pub mod node;
pub mod overlay;
pub mod pidfd;
pub mod process;
pub mod processes;
pub mod quota;
pub mod readiness;
pub mod relabel;
pub mod selinux;
pub mod socket;
pub mod tail_watch;
pub mod tree;
pub mod watch;
