//! `/healthz`: whether this process works. `/readyz`: whether pods can run. There are two because a process
//! that works must not be restarted while Docker is down.

use std::time::Duration;

use crate::{
    model::{attachment::NetworkStatus, engine::EngineHealth},
    store::{handle::Store, snapshot::Snapshot},
};

/// Whether the store's task still answers.
pub async fn lives(store: &Store) -> bool {
    store.answers(ANSWER_TIMEOUT).await
}

/// Why pods cannot run, for operators. Empty when they can.
pub fn obstacles(now: &Snapshot, network: &NetworkStatus) -> Vec<String> {
    let mut obstacles = Vec::new();
    match &now.health {
        EngineHealth::Reachable => {}
        EngineHealth::Starting => obstacles.push("docker has not answered yet".to_owned()),
        EngineHealth::Unreachable { reason } => {
            obstacles.push(format!("docker does not answer: {reason}"));
        }
    }
    if !now.is_synced() {
        obstacles.push("docker has not listed its containers yet".to_owned());
    }
    if !network.ready {
        let words = [&network.message, &network.reason].into_iter().find(|text| !text.is_empty());
        let words = words.map_or("no reason is known", String::as_str);
        obstacles.push(format!("pods cannot be connected: {words}"));
    }
    obstacles
}

/// A busy store answers within milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
