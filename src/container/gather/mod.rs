//! What a container's plan depends on besides its specification: found out before anything is
//! done, so that what cannot be is refused with nothing to undo.

pub mod accounts;
pub mod cdi;
mod devices;
pub mod facts;
mod host;
pub(super) mod host_check;
mod mounts;
pub mod seccomp_profile;
mod selinux;
