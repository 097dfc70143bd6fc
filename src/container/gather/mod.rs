//! Gathers the input of a container's plan before anything is created, so that nothing has to be undone
//! after an invalid request.

pub mod cdi;
mod devices;
pub mod host;
pub(super) mod host_check;
pub mod input;
mod mounts;
pub mod seccomp_profile;
mod selinux;
