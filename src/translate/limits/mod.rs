//! The limits of a container as [`cri`], NRI ([`nri`]) and Docker ([`docker`]) state them, and those that Docker
//! does not state, as files of a cgroup ([`cgroup_files`]). Each file reads and writes what its interface has.

pub mod cgroup_files;
pub mod cri;
pub mod docker;
pub mod nri;

#[cfg(test)]
mod tests;
