//! The pause image. It is built into the binary, so that a node without any registry can run pods.
//!
//! It does no I/O and does not know engines. Start with [`archive::archive`]: it makes an image that every
//! engine can load. Its layer (`ustar`) holds the program (`elf`), which keeps a pod's namespaces open
//! ([`crate::host::pause_program`]).

pub mod archive;
pub mod elf;

mod ustar;

#[cfg(test)]
mod tests;
