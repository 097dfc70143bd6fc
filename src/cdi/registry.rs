//! The handle to the specification files of this host.

use std::path::PathBuf;

use super::{catalogue::Catalogue, edits, error::CdiError};
use crate::model::cdi::CdiEdits;

/// The specification files of this host. Read at each use, as vendors rewrite them.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// Directories of specifications; a later one wins over an earlier one.
    directories: Vec<PathBuf>,
}

impl Registry {
    /// Reads specifications in these directories.
    pub const fn new(directories: Vec<PathBuf>) -> Self {
        Self { directories }
    }

    /// What the devices come to, for an engine that knows no CDI.
    ///
    /// # Errors
    /// A device is not known, or holds something that the engine cannot be told: see
    /// [`CdiError`].
    pub async fn edits(&self, devices: &[String]) -> Result<CdiEdits, CdiError> {
        let devices = devices.to_vec();
        self.read(move |catalogue| edits::collect(catalogue, &devices)).await
    }

    /// Refuses devices that an engine which reads these directories itself does not know either.
    /// It would do so at start only. What we cannot read is for the engine to judge.
    ///
    /// # Errors
    /// A device is not known, or defined twice.
    pub async fn ensure_known(&self, devices: &[String]) -> Result<(), CdiError> {
        let devices = devices.to_vec();
        self.read(move |catalogue| {
            if !catalogue.is_complete() {
                return Ok(());
            }
            devices.iter().try_for_each(|device| catalogue.find(device).map(drop))
        })
        .await
    }

    async fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Catalogue) -> Result<T, CdiError> + Send + 'static,
    ) -> Result<T, CdiError> {
        let directories = self.directories.clone();
        tokio::task::spawn_blocking(move || ask(&Catalogue::read(directories))).await?
    }
}

#[cfg(test)]
mod tests;
