//! Tokens: the last part of the URLs that Exec, Attach and PortForward return. The table of tokens has no clock and no
//! randomness: callers pass both.

use std::{collections::HashMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use tokio::time::Instant;

/// Requests whose URLs no client has opened yet. Each token works once, within [`LIFETIME`].
#[derive(Debug)]
pub struct Tokens<T> {
    /// Until when each token is valid, and its request.
    pending: HashMap<String, (Instant, T)>,
}

impl<T> Default for Tokens<T> {
    fn default() -> Self {
        Self { pending: HashMap::new() }
    }
}

impl<T> Tokens<T> {
    /// Stores `request` under the returned token. `random` must return bytes that cannot be guessed, and is
    /// called again if the token is in use. Returns `None` if [`MOST_PENDING`] requests wait for their clients.
    pub fn issue(
        &mut self,
        request: T,
        now: Instant,
        mut random: impl FnMut() -> [u8; 6],
    ) -> Option<String> {
        if self.pending.len() >= MOST_PENDING {
            self.pending.retain(|_, (until, _)| now < *until);
        }
        if self.pending.len() >= MOST_PENDING {
            return None;
        }
        let token = loop {
            let token = URL_SAFE_NO_PAD.encode(random());
            let taken = self.pending.get(&token).is_some_and(|(until, _)| now < *until);
            if !taken {
                break token;
            }
        };
        self.pending.insert(token.clone(), (now + LIFETIME, request));
        Some(token)
    }

    /// Removes the request with this token, and returns the request unless the token has expired.
    pub fn redeem(&mut self, token: &str, now: Instant) -> Option<T> {
        let (until, request) = self.pending.remove(token)?;
        (now < until).then_some(request)
    }
}

/// How long a token is valid. Clients open their URL immediately.
pub const LIFETIME: Duration = Duration::from_secs(60);
/// Maximum number of requests that wait for their clients at the same time.
pub const MOST_PENDING: usize = 1_000;

#[cfg(test)]
mod tests;
