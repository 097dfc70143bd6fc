//! Access to CRIU's images of a checkpoint, by name.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;

use super::image::{Image, decoded};

/// The images of a checkpoint that dockbridge-runtime has read, by name, and the names of changed images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::oci_runtime) struct Images(
    pub(in crate::oci_runtime) BTreeMap<String, Vec<u8>>,
    pub(in crate::oci_runtime) BTreeSet<String>,
);

impl Images {
    pub(super) fn names(&self, start: &str) -> Vec<String> {
        self.0.keys().filter(|name| name.starts_with(start)).cloned().collect()
    }

    pub(super) fn image(&self, name: &str) -> Result<Image, String> {
        let bytes = self.0.get(name).ok_or_else(|| format!("the checkpoint has no {name}"))?;
        Image::read(bytes).map_err(|reason| format!("CRIU image {name} is damaged: {reason}"))
    }

    /// Decodes the entries of an image.
    pub(super) fn read<M: Message + Default>(&self, name: &str) -> Result<Vec<M>, String> {
        let image = self.image(name)?;
        let entries = image.entries.iter().map(|entry| decoded(entry));
        entries
            .collect::<Result<_, _>>()
            .map_err(|reason| format!("CRIU image {name} is damaged: {reason}"))
    }

    /// Decodes the entries of the image whose name starts with `start`. Fails unless there is exactly one.
    pub(super) fn only<M: Message + Default>(&self, start: &str) -> Result<Vec<M>, String> {
        match self.names(start).as_slice() {
            [name] => self.read(name),
            names => Err(format!(
                "the checkpoint has {} images named {start}N instead of one",
                names.len()
            )),
        }
    }

    pub(super) fn change(
        &mut self,
        name: &str,
        change: impl Fn(&[u8]) -> Result<Vec<u8>, String>,
    ) -> Result<(), String> {
        let mut image = self.image(name)?;
        for entry in &mut image.entries {
            *entry = change(entry)?;
        }
        self.replace(name, &image);
        Ok(())
    }

    pub(super) fn replace(&mut self, name: &str, image: &Image) {
        self.0.insert(name.to_owned(), image.bytes());
        self.1.insert(name.to_owned());
    }
}
