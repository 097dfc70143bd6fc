//! Items of lists, which dockbridge encodes once and sends many times: kubelet often lists all pods and containers.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use prost::bytes::Bytes;

use crate::model::record::{ContainerRecord, SandboxRecord};

/// The encoded items of the pods and containers that were listed last.
#[derive(Debug, Default)]
pub struct EncodedLists {
    pub(super) sandboxes: Items<SandboxRecord>,
    pub(super) containers: Items<ContainerRecord>,
}

#[derive(Debug)]
pub(super) struct Items<R>(ArcSwap<Vec<Item<R>>>);

/// An item holds its record, so no other record can have the same address.
#[derive(Debug)]
pub(super) struct Item<R> {
    pub(super) record: Arc<R>,
    pub(super) message: Bytes,
}

impl<R> Items<R> {
    /// The items of all `records`. Calls `render` only for records without an item: a record never changes.
    pub(super) fn of(&self, records: &[Arc<R>], render: impl Fn(&R) -> Bytes) -> Arc<Vec<Item<R>>> {
        let known = self.0.load_full();
        if known.iter().map(|item| Arc::as_ptr(&item.record)).eq(records.iter().map(Arc::as_ptr)) {
            return known;
        }
        let kept: HashMap<*const R, &Bytes> =
            known.iter().map(|item| (Arc::as_ptr(&item.record), &item.message)).collect();
        let message = |record: &Arc<R>| {
            let message = kept.get(&Arc::as_ptr(record));
            message.map_or_else(|| render(record), |message| (*message).clone())
        };
        let item = |record: &Arc<R>| Item { record: Arc::clone(record), message: message(record) };
        let items = Arc::new(records.iter().map(item).collect::<Vec<_>>());
        self.0.store(Arc::clone(&items));
        items
    }
}

impl<R> Default for Items<R> {
    fn default() -> Self {
        Self(ArcSwap::default())
    }
}

#[cfg(test)]
mod tests;
