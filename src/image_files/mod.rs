//! What is inside an image: its users and groups, its paths, and its files as a directory of this
//! host that containers can mount. It does not know what they are needed for.
//!
//! The engine shows the inside of containers only, so an inspection costs a container that is never
//! started. What was read is kept by image id, which names the same bytes for ever.
//!
//! Start at [`service::ImageFiles`]. [`accounts`] reads `/etc/passwd` and `/etc/group` through an
//! [`inspection`]; [`volume`] prepares a mount of an image, by the engine or as a mounted
//! [`directory`], whose image has a [`pin`] that [`volume_restore`] creates again when it is removed.

pub mod accounts;
pub mod directory;
pub mod error;
pub mod inspection;
mod pin;
pub mod service;
mod sub_path;
mod volume;
pub mod volume_restore;
