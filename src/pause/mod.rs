//! The pause image inside the binary, so that a node without any registry runs pods.
//!
//! A pod's namespaces need one process that holds them. Ours is a hundred bytes of machine code
//! (`code`), wrapped into a program file (`elf`), put into a layer (`ustar`) of an image that
//! every engine can load (`archive`). Nothing here does I/O.

pub mod archive;
pub mod elf;

mod code;
mod ustar;

#[cfg(test)]
mod tests;
