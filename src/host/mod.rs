//! System calls, `/proc`, cgroups, mounts and files of this host. In `src`, only this module has `unsafe` code.
//!
//! Functions that are not async may block their thread, for example while they wait for a slow disk. This module uses
//! no module for pods, the CRI, CNI, NRI or the Engine API.

pub mod apparmor;
pub mod beneath;
pub mod capability;
pub mod cgroup;
pub mod clock;
pub mod descriptors;
pub mod detached;
pub mod device_node;
pub mod disk;
pub mod error;
pub mod file;
pub mod freezer;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod hangups;
pub mod heap;
pub mod id_map;
pub mod inherited_socket;
pub mod listening_socket;
pub mod lock;
pub mod mounts;
pub mod namespaces;
pub mod netns;
pub mod orphans;
pub mod overlay;
pub mod pause_program;
pub mod pidfd;
pub mod plugin_process;
pub mod process;
pub mod process_tree;
pub mod processes;
pub mod readiness;
pub mod relabel;
pub mod root_files;
pub mod seccomp_filter;
pub mod selinux;
pub mod socket;
pub mod tail_watch;
pub mod tree;
pub mod umask;
pub mod upper_layer;
