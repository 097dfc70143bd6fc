//! Merges the changes of limits that NRI plugins request, for each container.

use indexmap::IndexMap;

use super::owners::Owners;
use crate::{error::Failure, translate::limits::nri::merge_limits, wire::nri};

/// The merged changes, in the order in which plugins first named the containers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Updates(IndexMap<String, nri::ContainerUpdate>);

impl Updates {
    /// Merges a plugin's updates. Fails if another plugin has set the same limit of the same container, but leaves out
    /// such an update if it has `ignore_failure`.
    pub fn add(
        &mut self,
        owners: &mut Owners,
        plugin: &str,
        asked: &[nri::ContainerUpdate],
    ) -> Result<(), Failure> {
        for update in asked {
            let (id, limits) = (update.container_id.as_str(), limits(update));
            let mut discarded = nri::LinuxResources::default();
            if let Some(limits) = limits
                && update.ignore_failure
                && merge_limits(&mut discarded, limits, &mut owners.clone().claims(id, plugin))
                    .is_err()
            {
                continue;
            }
            let first = || nri::ContainerUpdate { linux: None, ..update.clone() };
            let known = self.0.entry(id.to_owned()).or_insert_with(first);
            known.ignore_failure &= update.ignore_failure;
            if let Some(limits) = limits {
                let over = known.linux.get_or_insert_default().resources.get_or_insert_default();
                merge_limits(over, limits, &mut owners.claims(id, plugin))?;
            }
        }
        Ok(())
    }

    /// The merged updates of all containers.
    pub fn all(&self) -> Vec<nri::ContainerUpdate> {
        self.0.values().cloned().collect()
    }

    /// The merged updates of all containers except `container`.
    pub fn of_others(&self, container: &str) -> Vec<nri::ContainerUpdate> {
        self.0.values().filter(|update| update.container_id != container).cloned().collect()
    }

    /// The limits that plugins requested for a container.
    pub fn limits_of(&self, container: &str) -> Option<&nri::LinuxResources> {
        limits(self.0.get(container)?)
    }
}

fn limits(update: &nri::ContainerUpdate) -> Option<&nri::LinuxResources> {
    update.linux.as_ref()?.resources.as_ref()
}
