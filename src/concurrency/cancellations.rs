//! Cancellation tokens by name. A task that waits for a lock can cancel the work of the lock's holder,
//! because that work may never end.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// A table of tokens by name.
#[derive(Debug, Default)]
pub struct Cancellations(Mutex<HashMap<String, Weak<CancellationToken>>>);

impl Cancellations {
    /// The token of `name`. A cancelled token stays until its holder and all waiting tasks have dropped it.
    pub fn of(&self, name: &str) -> Arc<CancellationToken> {
        let mut table = self.0.lock();
        if let Some(token) = table.get(name).and_then(Weak::upgrade) {
            return token;
        }
        table.retain(|_, token| token.strong_count() > 0);
        let token = Arc::new(CancellationToken::new());
        table.insert(name.to_owned(), Arc::downgrade(&token));
        token
    }
}

#[cfg(test)]
mod tests {
    use super::Cancellations;

    #[test]
    fn a_cancellation_lasts_until_its_last_holder_drops_it() {
        let cancellations = Cancellations::default();
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
