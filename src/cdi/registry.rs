//! Looks up CDI devices in the specification files of this host.

use std::path::PathBuf;

use super::{
    device_index::DeviceIndex,
    edits::{self, Check},
};
use crate::{concurrency::blocking::blocking, error::Failure, model::spec_edit::SpecEdit};

/// The CDI specification files of this host. Each call reads the files again, because vendors rewrite them.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// Directories of specifications. A device in a later directory replaces the device with the same name in an
    /// earlier one.
    directories: Vec<PathBuf>,
}

impl Registry {
    /// A registry of the specifications in these directories.
    pub const fn new(directories: Vec<PathBuf>) -> Self {
        Self { directories }
    }

    /// The edits of the devices. `engine` is set if the engine, not dockbridge's OCI runtime, has to make them. Fails
    /// if a device is unknown or defined twice in a directory, or if one of its edits cannot be made.
    pub async fn edits(
        &self,
        devices: &[String],
        engine: Option<Check>,
    ) -> Result<Vec<SpecEdit>, Failure> {
        let devices = devices.to_vec();
        self.read(move |index| edits::collect(index, &devices, engine)).await
    }

    /// Refuses devices that an engine with its own CDI support would refuse only when the container starts: those that
    /// are unknown or defined twice in a directory. Leaves the check to the engine if no directory exists, or if a
    /// directory or specification file cannot be read or parsed.
    pub async fn ensure_known(&self, devices: &[String]) -> Result<(), Failure> {
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
        query: impl FnOnce(&DeviceIndex) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let directories = self.directories.clone();
        blocking(move || query(&DeviceIndex::read(directories))).await
    }
}

#[cfg(test)]
mod tests;
