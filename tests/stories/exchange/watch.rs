//! While the engine is exchanged, lists pods and containers all the time and probes a container with commands, as
//! a kubelet does.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{task::JoinHandle, time::sleep};
use tonic::Code;

use super::crew::Crew;
use crate::support::{cri::Cri, failure::Outcome};

/// Lists and probes in the background until [`Watch::end`].
#[derive(Debug)]
pub(super) struct Watch {
    over: Arc<AtomicBool>,
    lists: JoinHandle<Outcome<BTreeSet<String>>>,
    probes: JoinHandle<BTreeSet<String>>,
}

impl Watch {
    /// Watches the pods and containers that are listed now, and probes the last container of the first pod.
    pub(super) async fn start(cri: &Cri, crew: &Crew) -> Outcome<Self> {
        let over = Arc::<AtomicBool>::default();
        let probed = crew.pods[0].ids.last().cloned().unwrap_or_default();
        Ok(Self {
            lists: tokio::spawn(list(cri.clone(), states(cri).await?, Arc::clone(&over))),
            probes: tokio::spawn(probe(cri.clone(), probed, Arc::clone(&over))),
            over,
        })
    }

    /// The pods and containers that kubelet would have replaced, and the failures that its probes would have counted.
    pub(super) async fn end(self) -> Outcome<(BTreeSet<String>, BTreeSet<String>)> {
        self.over.store(true, Ordering::Relaxed);
        Ok((self.lists.await??, self.probes.await?))
    }
}

/// All pods and containers of `before` that were missing from a list or had another state there.
async fn list(
    cri: Cri,
    before: BTreeSet<String>,
    over: Arc<AtomicBool>,
) -> Outcome<BTreeSet<String>> {
    let mut lost = BTreeSet::new();
    while !over.load(Ordering::Relaxed) {
        lost.extend(before.difference(&states(&cri).await?).cloned());
        sleep(PAUSE).await;
    }
    Ok(lost)
}

async fn states(cri: &Cri) -> Outcome<BTreeSet<String>> {
    let pods = cri.sandboxes().await?;
    let pods = pods.iter().map(|pod| format!("{} {:?}", pod.id, pod.state()));
    let containers = cri.containers().await?;
    let containers = containers.iter().map(|one| format!("{} {:?}", one.id, one.state()));
    Ok(pods.chain(containers).collect())
}

/// Probes a container repeatedly, and returns the failures that kubelet would count. kubelet ignores a probe whose call
/// fails, but counts a probe that ran out of time.
async fn probe(cri: Cri, container: String, over: Arc<AtomicBool>) -> BTreeSet<String> {
    let mut failures = BTreeSet::new();
    while !over.load(Ordering::Relaxed) {
        match cri.exec_sync(&container, &["true"], 20).await {
            Ok(answer) if answer.exit_code == 0 => {}
            Ok(answer) => drop(failures.insert(format!("exit code {}", answer.exit_code))),
            Err(refused) if refused.code == Code::DeadlineExceeded => {
                failures.insert(refused.to_string());
            }
            Err(_) => {}
        }
        sleep(PAUSE).await;
    }
    failures
}

const PAUSE: Duration = Duration::from_millis(50);
