//! Gathers the input of a container's plan before the container is created, so that an invalid request leaves
//! no container.

pub mod cdi;
mod devices;
pub mod host;
pub(super) mod host_check;
pub mod input;
mod mounts;
pub mod seccomp_profile;
mod selinux;
