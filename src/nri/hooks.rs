//! Callbacks to `container`, which is above this module: what plugins may do to containers, and which
//! limits they see.

use std::fmt;

use futures_util::future::BoxFuture;

use crate::model::{
    record::{ContainerRecord, SandboxRecord},
    resources::{PodResources, Resources},
};

/// The callbacks.
#[allow(clippy::type_complexity, reason = "an alias would hide that these are functions")]
pub struct NriHooks {
    /// Changes the limits of a container. Returns the reason if that fails.
    pub update:
        Box<dyn Fn(String, Resources) -> BoxFuture<'static, Result<(), String>> + Send + Sync>,
    /// Kills a container. [`super::follower`] reports its end.
    pub kill: Box<dyn Fn(String) -> BoxFuture<'static, Result<(), String>> + Send + Sync>,
    /// The last requested limits of a container.
    pub limits: Box<dyn Fn(&ContainerRecord) -> Resources + Send + Sync>,
    /// The last limits of a pod from kubelet.
    pub pod_limits: Box<dyn Fn(&SandboxRecord) -> PodResources + Send + Sync>,
}

impl fmt::Debug for NriHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NriHooks").finish_non_exhaustive()
    }
}
