//! Converts the limits of a container for each interface: the CRI ([`cri`]), NRI ([`nri`]) and Docker
//! ([`docker`]). [`cgroup_files`] has limits that Docker does not have.

pub mod cgroup_files;
pub mod cri;
pub mod docker;
pub mod nri;

#[cfg(test)]
mod tests;
