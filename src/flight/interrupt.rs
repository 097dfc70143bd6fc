//! Who waits for a lock may cut short what its holder does, where that can take for ever.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio_util::sync::CancellationToken;

/// A table of interrupts by name. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interrupts {
    table: Arc<Mutex<HashMap<String, Weak<CancellationToken>>>>,
}

impl Interrupts {
    /// The interrupt of `name`: one that is cancelled stays so until nobody holds it any more,
    /// neither who is cut short nor who waits for that.
    pub fn of(&self, name: &str) -> Arc<CancellationToken> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(interrupt) = table.get(name).and_then(Weak::upgrade) {
            return interrupt;
        }
        table.retain(|_, interrupt| interrupt.strong_count() > 0);
        let interrupt = Arc::new(CancellationToken::new());
        table.insert(name.to_owned(), Arc::downgrade(&interrupt));
        interrupt
    }
}

#[cfg(test)]
mod tests {
    use super::Interrupts;

    #[test]
    fn an_interrupt_lasts_as_long_as_somebody_holds_it() {
        let interrupts = Interrupts::default();
        let waiting = interrupts.of("pod");
        waiting.cancel();
        let working = interrupts.of("pod");
        assert!(working.is_cancelled() && !interrupts.of("other").is_cancelled());
        drop(waiting);
        assert!(interrupts.of("pod").is_cancelled());
        drop(working);
        assert!(!interrupts.of("pod").is_cancelled());
    }
}
