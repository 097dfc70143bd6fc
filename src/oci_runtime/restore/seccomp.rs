//! Puts the seccomp filter of the new container below all filters of a container checkpoint, so that both apply.

use std::collections::BTreeMap;

use super::messages::{Filter, Seccomp, Thread};

/// The seccomp filters for the restore: first those of the new container, then those of the container checkpoint.
pub(super) struct Chains {
    filters: Vec<Filter>,
    /// For each lowest filter of the container checkpoint: the filter of the new container that was put below it.
    below: BTreeMap<usize, u32>,
}

impl Chains {
    pub(super) fn new(of_checkpoint: Seccomp, program: &[u8]) -> Self {
        let own = |flags| Filter { program: program.to_vec(), previous: None, flags };
        let mut filters = vec![own(None), own(Some(ALL_THREADS))];
        let moved = of_checkpoint.filters.into_iter().map(|filter| Filter {
            previous: Some(filter.previous.map_or(0, |before| before.saturating_add(MOVED))),
            ..filter
        });
        filters.extend(moved);
        Self { filters, below: BTreeMap::new() }
    }

    /// Adds the new container's filter to the threads of a process. CRIU installs the filters of the first
    /// thread for all threads if the other threads have no filters in the images.
    pub(super) fn put_below(
        &mut self,
        leader: u32,
        threads: &mut BTreeMap<u32, Thread>,
    ) -> Result<(), String> {
        let has_filter = |thread: &Thread| thread.seccomp_mode == Some(WITH_FILTER);
        let is_separate = threads.iter().any(|(id, thread)| *id != leader && has_filter(thread));
        let own = u32::from(!is_separate);
        for (id, thread) in threads {
            if !is_separate && *id != leader {
                continue;
            }
            thread.seccomp_filter =
                Some(match thread.seccomp_filter.filter(|_| has_filter(thread)) {
                    Some(filter) => self.based(filter.saturating_add(MOVED), own)?,
                    None => own,
                });
            thread.seccomp_mode = Some(WITH_FILTER);
        }
        Ok(())
    }

    /// Puts the new container's filter below `filter` and all filters that were installed before it.
    fn based(&mut self, filter: u32, own: u32) -> Result<u32, String> {
        let index = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let mut first = index(filter);
        for _ in 0..self.filters.len() {
            let found = self
                .filters
                .get_mut(first)
                .ok_or("the checkpoint lacks a seccomp filter that one of its processes uses")?;
            match found.previous {
                Some(before) if before >= MOVED => first = index(before),
                _ => {
                    found.previous = Some(own);
                    return match self.below.insert(first, own) {
                        Some(other) if other != own => {
                            Err("two processes share a seccomp filter, but only one of them has separate filters for its threads".to_owned())
                        }
                        _ => Ok(filter),
                    };
                }
            }
        }
        Err("the checkpoint's seccomp filters form a cycle".to_owned())
    }

    pub(super) fn filters(self) -> Seccomp {
        Seccomp { filters: self.filters }
    }
}

/// SECCOMP_FILTER_FLAG_TSYNC.
const ALL_THREADS: u32 = 1;
/// The numbers of the container checkpoint's filters grow by 2, the number of filters of the new container.
const MOVED: u32 = 2;
pub(super) const STRICT: u32 = 1;
const WITH_FILTER: u32 = 2;
