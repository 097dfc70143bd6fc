//! Access to CRIU's images of a container checkpoint, by name.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;

use super::image::{Image, decoded};

/// CRIU's images of a container checkpoint that dockbridge-runtime has read or made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::oci_runtime) struct Images {
    pub(in crate::oci_runtime) contents: BTreeMap<String, Vec<u8>>,
    /// The names of the CRIU images that must be written.
    pub(in crate::oci_runtime) changed: BTreeSet<String>,
}

impl Images {
    pub(super) fn names(&self, prefix: &str) -> Vec<String> {
        self.contents.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
    }

    pub(super) fn image(&self, name: &str) -> Result<Image, String> {
        let bytes =
            self.contents.get(name).ok_or_else(|| format!("the checkpoint has no {name}"))?;
        Image::read(bytes).map_err(|reason| format!("CRIU image {name} cannot be read: {reason}"))
    }

    pub(super) fn read<M: Message + Default>(&self, name: &str) -> Result<Vec<M>, String> {
        let image = self.image(name)?;
        let entries = image.entries.iter().map(|entry| decoded(entry));
        entries
            .collect::<Result<_, _>>()
            .map_err(|reason| format!("CRIU image {name} is damaged: {reason}"))
    }

    /// Decodes the entries of the only image whose name starts with `prefix`. Fails if there are none or several.
    pub(super) fn read_single<M: Message + Default>(&self, prefix: &str) -> Result<Vec<M>, String> {
        match self.names(prefix).as_slice() {
            [name] => self.read(name),
            names => Err(format!(
                "the checkpoint has {} CRIU images named {prefix}N instead of one",
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
        self.contents.insert(name.to_owned(), image.bytes());
        self.changed.insert(name.to_owned());
    }
}
