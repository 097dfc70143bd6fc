//! Looks up CDI devices in the specification files of this host.

use std::path::PathBuf;

use super::{device_index::DeviceIndex, engine_edits, error::CdiError, oci_changes};
use crate::{
    concurrency::blocking::blocking,
    model::{cdi::CdiEdits, oci_changes::OciChanges},
};

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

    /// All edits of the devices, for our OCI runtime.
    ///
    /// # Errors
    /// A device is not known, or is specified wrongly.
    pub async fn oci_changes(&self, devices: &[String]) -> Result<OciChanges, CdiError> {
        let devices = devices.to_vec();
        self.read(move |index| oci_changes::collect(index, &devices)).await
    }

    /// The edits of the devices, for an engine without CDI and without our OCI runtime.
    ///
    /// # Errors
    /// A device is not known, or one of its edits cannot be applied: see [`CdiError`].
    pub async fn engine_edits(&self, devices: &[String]) -> Result<CdiEdits, CdiError> {
        let devices = devices.to_vec();
        self.read(move |index| engine_edits::collect(index, &devices)).await
    }

    /// Refuses devices that an engine which reads these directories itself does not know either.
    /// It would do so at start only. What we cannot read is left to the engine.
    ///
    /// # Errors
    /// A device is not known, or defined twice.
    pub async fn ensure_known(&self, devices: &[String]) -> Result<(), CdiError> {
        let devices = devices.to_vec();
        self.read(move |index| {
            if !index.is_complete() {
                return Ok(());
            }
            devices.iter().try_for_each(|device| index.find(device).map(drop))
        })
        .await
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&DeviceIndex) -> Result<T, CdiError> + Send + 'static,
    ) -> Result<T, CdiError> {
        let directories = self.directories.clone();
        blocking(move || query(&DeviceIndex::read(directories))).await
    }
}

#[cfg(test)]
mod tests;
