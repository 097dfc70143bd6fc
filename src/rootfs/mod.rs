//! What is inside an image: who is known there, whether a path exists, and its files as a folder
//! of this host that containers can mount.
//!
//! The engine shows the inside of containers only, so a look costs a container that never starts;
//! what was seen is kept by image id, which names the same bytes for ever.

pub mod accounts;
pub mod error;
pub mod folder;
pub mod guard;
mod holder;
pub mod peek;
pub mod room;
mod sub_path;
mod volume;
