//! Keyed settings of plugins, in order. A plugin may send as many keys as fit into a message, so lookups
//! must not search through all of them.

use std::collections::BTreeMap;

/// By key, in the order in which they were last set. Entries are never deleted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entries<T> {
    all: BTreeMap<u64, (String, Option<T>)>,
    places: BTreeMap<String, u64>,
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self { all: BTreeMap::new(), places: BTreeMap::new() }
    }
}

impl<T> Entries<T> {
    /// Sets or removes a key. It moves to the end.
    pub(super) fn put(&mut self, key: String, value: Option<T>) {
        let place = self.all.last_key_value().map_or(0, |(last, _)| last + 1);
        if let Some(earlier) = self.places.insert(key.clone(), place) {
            self.all.remove(&earlier);
        }
        self.all.insert(place, (key, value));
    }

    /// Whether a key was set or removed.
    pub(super) fn has(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    pub(super) fn value(&self, key: &str) -> Option<&T> {
        self.all.get(self.places.get(key)?)?.1.as_ref()
    }

    /// The value of a key, which can be changed without moving it.
    pub(super) fn value_mut(&mut self, key: &str) -> Option<&mut T> {
        self.all.get_mut(self.places.get(key)?)?.1.as_mut()
    }

    /// All entries, including removed keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Option<&T>)> {
        self.all.values().map(|(key, value)| (key.as_str(), value.as_ref()))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.all.values().filter_map(|(_, value)| value.as_ref())
    }
}
