//! The Container Device Interface, for engines that do not know it: its specification files are
//! read here, and the devices they describe become device nodes, mounts and environment.

pub mod registry;
