//! Guests up to a number: who comes when the house is full takes the place of whoever came first.
//! Servers take in connections this way: those who keep silent must not keep others waiting.

use std::collections::VecDeque;

use tokio::task::AbortHandle;

/// Tasks that serve guests, the oldest first.
#[derive(Debug)]
pub struct Crowd {
    most: usize,
    guests: VecDeque<AbortHandle>,
}

impl Crowd {
    /// Room for `most`.
    pub const fn new(most: usize) -> Self {
        Self { most, guests: VecDeque::new() }
    }

    /// Takes one in. When there are too many the oldest has to go.
    pub fn admit(&mut self, guest: AbortHandle) {
        self.guests.retain(|one| !one.is_finished());
        if self.guests.len() >= self.most
            && let Some(oldest) = self.guests.pop_front()
        {
            oldest.abort();
        }
        self.guests.push_back(guest);
    }
}

#[cfg(test)]
mod tests {
    //! Who has to go.

    use std::future::pending;

    use super::Crowd;

    #[tokio::test]
    async fn the_oldest_guest_leaves_when_the_house_is_full() {
        let mut crowd = Crowd::new(2);
        let guests: Vec<_> = (0..3).map(|_| tokio::spawn(pending::<()>())).collect();
        for guest in &guests {
            crowd.admit(guest.abort_handle());
        }
        let mut guests = guests.into_iter();
        assert!(guests.next().unwrap().await.unwrap_err().is_cancelled());
        assert!(guests.all(|guest| !guest.is_finished()));
    }
}
