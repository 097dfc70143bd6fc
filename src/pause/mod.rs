//! The pause image, built into the dockbridge binary, so that a node without a registry can run pods.
//!
//! This module does no I/O and does not know the engine. Start with [`archive::archive`], which makes an
//! image that engines with either image store can load. The image's layer (`ustar`) has the pause program
//! (`elf`), which keeps a pod's namespaces open ([`crate::host::pause_program`]).

pub mod archive;
pub mod elf;

mod ustar;

#[cfg(test)]
mod tests;
