//! Resource usage of containers and pods, read from the kernel: cgroups, network namespaces, and the
//! directories of writable layers. This module never asks the engine for usage.
//!
//! ```text
//! service:       Stats, what the other modules call
//! collector:     reads one container or pod, and keeps data between readings
//! read:          turns the texts of kernel files into figures; the formula of the working set is in
//!                `host::cgroup::working_set`
//! layer_walker:  measures writable layers in the background
//! disk_watcher:  reads the names of all disks and the size of the layers' file system in the background
//! ```

pub mod service;

mod collector;
mod disk_watcher;
mod disks;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod layer_walker;
mod layers;
mod pods;
mod rates;
mod read;

#[cfg(test)]
mod tests;
