//! The content of an image: its users and groups, its paths, and its files as a directory of this host that
//! containers can mount.
//!
//! The Engine API reads single files only from containers, so an inspection needs a container, which is never
//! started. Users and groups are cached by image id, because an id always means the same files.
//!
//! Start with [`service::ImageFiles`]. [`accounts`] reads `/etc/passwd` and `/etc/group` through an
//! [`inspection`]. [`volume`] prepares a mount of an image, by the engine or as a [`directory`]. Each directory's
//! image has a pin, a container that is never started. [`volume_restore`] restores pins that containers still need.

pub mod accounts;
pub mod directory;
pub mod error;
pub mod inspection;
pub mod service;
mod sub_path;
mod volume;
pub mod volume_restore;
