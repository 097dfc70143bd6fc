//! Immutable tables of records, newest first, which are searched by id or a prefix of an id.

use std::{cmp::Reverse, sync::Arc};

use crate::model::{
    record::{ContainerRecord, SandboxRecord},
    time::Nanos,
};

pub(super) trait Dated {
    fn id(&self) -> &str;
    fn created_at(&self) -> Nanos;
}

/// Pods or containers in memory, to be found by id and listed newest first.
#[derive(Debug)]
pub(super) struct Index<T> {
    by_id: Vec<Arc<T>>,
    newest: Vec<Arc<T>>,
}

impl<T: Dated> Index<T> {
    /// Creates a table of records that the caller has sorted by id.
    pub(super) fn new(by_id: Vec<Arc<T>>) -> Self {
        let mut newest = by_id.clone();
        // The sort is stable, so records with the same creation time stay sorted by id.
        newest.sort_by_key(|record| Reverse(record.created_at()));
        Self { by_id, newest }
    }

    /// The records for which `left_out` is false, sorted by id. `None` if `left_out` is true for no record.
    pub(super) fn without(&self, left_out: impl Fn(&T) -> bool) -> Option<Vec<Arc<T>>> {
        let others: Vec<_> = self.by_id.iter().filter(|one| !left_out(one)).cloned().collect();
        (others.len() < self.by_id.len()).then_some(others)
    }

    pub(super) fn newest(&self) -> &[Arc<T>] {
        &self.newest
    }

    /// The record with the id `id`. Without such a record, the only record whose id starts with `id`, if `id` has at
    /// least four characters.
    pub(super) fn find(&self, id: &str) -> Option<&Arc<T>> {
        let from = self.by_id.partition_point(|record| record.id() < id);
        match self.by_id.get(from..)? {
            [first, ..] if first.id() == id => Some(first),
            [first, rest @ ..] if id.len() >= SHORTEST_PREFIX && first.id().starts_with(id) => {
                let other = rest.first().is_some_and(|record| record.id().starts_with(id));
                (!other).then_some(first)
            }
            _ => None,
        }
    }
}

impl Dated for SandboxRecord {
    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn created_at(&self) -> Nanos {
        self.created_at
    }
}

impl Dated for ContainerRecord {
    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn created_at(&self) -> Nanos {
        self.created_at
    }
}

/// The length of the shortest prefix of an id: a shorter text is probably a mistake.
const SHORTEST_PREFIX: usize = 4;
