//! Tokens: the last part of the URLs that Exec, Attach and PortForward return. With it a client opens the
//! request. This is a table without a clock and without randomness. Callers pass both.

use std::{collections::HashMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use tokio::time::Instant;

/// Requests that no client has opened yet. Each can be opened once, within [`LIFETIME`].
#[derive(Debug)]
pub struct Tokens<T> {
    pending: HashMap<String, Pending<T>>,
}

#[derive(Debug)]
struct Pending<T> {
    until: Instant,
    request: T,
}

impl<T> Default for Tokens<T> {
    fn default() -> Self {
        Self { pending: HashMap::new() }
    }
}

impl<T> Tokens<T> {
    /// Stores `request` under the returned token. `random` returns bytes that cannot be guessed. It is
    /// called again if a token is already in use. None if [`MOST_PENDING`] requests are open.
    pub fn issue(
        &mut self,
        request: T,
        now: Instant,
        mut random: impl FnMut() -> [u8; 6],
    ) -> Option<String> {
        if self.pending.len() >= MOST_PENDING {
            self.pending.retain(|_, pending| now < pending.until);
        }
        if self.pending.len() >= MOST_PENDING {
            return None;
        }
        let token = loop {
            let token = URL_SAFE_NO_PAD.encode(random());
            let taken = self.pending.get(&token).is_some_and(|pending| now < pending.until);
            if !taken {
                break token;
            }
        };
        self.pending.insert(token.clone(), Pending { until: now + LIFETIME, request });
        Some(token)
    }

    /// The request with this token, which becomes invalid.
    pub fn redeem(&mut self, token: &str, now: Instant) -> Option<T> {
        let pending = self.pending.remove(token)?;
        (now < pending.until).then_some(pending.request)
    }
}

/// How long a token is valid. Clients use their URL at once.
pub const LIFETIME: Duration = Duration::from_secs(60);
/// How many requests may be open at a time.
pub const MOST_PENDING: usize = 1_000;

#[cfg(test)]
mod tests;
