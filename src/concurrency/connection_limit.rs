//! Limits the number of connections: at the limit, a new connection ends the oldest one. So clients that
//! connect and send nothing cannot keep other clients waiting.

use std::collections::VecDeque;

use tokio::task::AbortHandle;

/// The tasks that serve connections, the oldest first.
#[derive(Debug)]
pub struct ConnectionLimit {
    limit: usize,
    connections: VecDeque<AbortHandle>,
}

impl ConnectionLimit {
    /// Starts without connections.
    pub const fn new(limit: usize) -> Self {
        Self { limit, connections: VecDeque::new() }
    }

    /// Adds a connection. At the limit, also ends the oldest connection.
    pub fn add(&mut self, connection: AbortHandle) {
        self.connections.retain(|one| !one.is_finished());
        if self.connections.len() >= self.limit
            && let Some(oldest) = self.connections.pop_front()
        {
            oldest.abort();
        }
        self.connections.push_back(connection);
    }
}

#[cfg(test)]
mod tests {
    //! Tests which connection is ended at the limit.

    use std::future::pending;

    use super::ConnectionLimit;

    #[tokio::test]
    async fn the_oldest_connection_is_ended_beyond_the_limit() {
        let mut limit = ConnectionLimit::new(2);
        let connections: Vec<_> = (0..3).map(|_| tokio::spawn(pending::<()>())).collect();
        for connection in &connections {
            limit.add(connection.abort_handle());
        }
        let mut connections = connections.into_iter();
        assert!(connections.next().unwrap().await.unwrap_err().is_cancelled());
        assert!(connections.all(|one| !one.is_finished()));
    }
}
