//! The content of an image: its users and groups, its paths, and its files as a directory of this host that
//! containers can mount. This module does not know what they are used for.
//!
//! The engine shows only the content of containers, so an inspection needs a container, which is never
//! started. Results are cached by image id, because an id always means the same bytes.
//!
//! Start with [`service::ImageFiles`]. [`accounts`] reads `/etc/passwd` and `/etc/group` through an
//! [`inspection`]. [`volume`] prepares a mount of an image: the engine mounts it, or dockbridge mounts it
//! as a [`directory`]. That image has a pin, which [`volume_restore`] creates again when it is removed.

pub mod accounts;
pub mod directory;
pub mod error;
pub mod inspection;
pub mod service;
mod sub_path;
mod volume;
pub mod volume_restore;
