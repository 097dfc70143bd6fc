//! Limits of a container through its life: those the engine cannot set, changes of any of them,
//! and what is in force.

mod cgroup;
pub mod error;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub(super) mod hugepages;
pub mod service;
mod shown;
mod start;
mod status;
mod update;

#[cfg(test)]
mod tests;
