//! Values by name. A value is created on demand and dropped by its last holder.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

/// A table of values by name.
#[derive(Debug, Default)]
pub struct Named<T>(Mutex<HashMap<String, Weak<T>>>);

impl<T: Default> Named<T> {
    /// The value of `name`. All callers that hold the value of a name at the same time share one value.
    pub fn of(&self, name: &str) -> Arc<T> {
        let mut table = self.0.lock();
        if let Some(value) = table.get(name).and_then(Weak::upgrade) {
            return value;
        }
        if table.len() >= SWEEP_AT {
            table.retain(|_, value| value.strong_count() > 0);
        }
        let value = Arc::<T>::default();
        table.insert(name.to_owned(), Arc::downgrade(&value));
        value
    }
}

/// When a name is added to a table with this many names, names without a value are removed first.
const SWEEP_AT: usize = 512;

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::Named;

    #[test]
    fn a_cancellation_lasts_until_its_last_holder_drops_it() {
        let cancellations = Named::<CancellationToken>::default();
        let waiting = cancellations.of("pod");
        waiting.cancel();
        let working = cancellations.of("pod");
        assert!(working.is_cancelled() && !cancellations.of("other").is_cancelled());
        drop(waiting);
        assert!(cancellations.of("pod").is_cancelled());
        drop(working);
        assert!(!cancellations.of("pod").is_cancelled());
    }
}
