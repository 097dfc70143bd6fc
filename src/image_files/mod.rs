//! The content of an image: its users and groups, its paths, and its files as a directory of this
//! host that containers can mount. This module does not know what they are needed for.
//!
//! The engine shows only the content of containers, so an inspection needs a container that is never
//! started. Results are cached by image id, because an id always names the same bytes.
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
