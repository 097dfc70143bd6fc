//! Changes of limits that several plugins ask for, merged for each container.

use super::{
    owners::{Conflict, Owners},
    resources::lay,
};
use crate::wire::nri;

/// The merged changes, in the order in which the containers were named first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Updates(Vec<nri::ContainerUpdate>);

impl Updates {
    /// Adds what a plugin asks for. What may fail and conflicts is left out.
    ///
    /// # Errors
    /// Another plugin set the same limit of the same container.
    pub fn add(
        &mut self,
        owners: &mut Owners,
        plugin: &str,
        asked: &[nri::ContainerUpdate],
    ) -> Result<(), Conflict> {
        for update in asked {
            let before = (owners.clone(), self.0.clone());
            match self.add_one(owners, plugin, update) {
                Err(_) if update.ignore_failure => (*owners, self.0) = before,
                added => added?,
            }
        }
        Ok(())
    }

    /// All of them.
    pub fn all(&self) -> &[nri::ContainerUpdate] {
        &self.0
    }

    fn add_one(
        &mut self,
        owners: &mut Owners,
        plugin: &str,
        update: &nri::ContainerUpdate,
    ) -> Result<(), Conflict> {
        let id = update.container_id.as_str();
        let at = self.0.iter().position(|known| known.container_id == id).unwrap_or_else(|| {
            self.0.push(nri::ContainerUpdate { linux: None, ..update.clone() });
            self.0.len() - 1
        });
        let Some(known) = self.0.get_mut(at) else { return Ok(()) };
        known.ignore_failure &= update.ignore_failure;
        let Some(asked) = update.linux.as_ref().and_then(|linux| linux.resources.as_ref()) else {
            return Ok(());
        };
        let over = known.linux.get_or_insert_default().resources.get_or_insert_default();
        let mut claims = owners.claims(id, plugin);
        lay(over, asked, &mut claims)
    }
}
