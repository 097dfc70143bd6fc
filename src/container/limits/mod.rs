//! Limits of a container: checks before its creation, limits that the engine cannot set, updates, and current values.

mod cgroup;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub(super) mod hugepages;
mod reported;
pub mod service;
mod start;
mod status;
mod update;

#[cfg(test)]
mod tests;
