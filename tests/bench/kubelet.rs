//! Makes the calls that kubelet makes on an idle node, as often as kubelet makes them.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dockbridge::wire::cri;
use tokio::{task::JoinSet, time::sleep};
use tonic::Code;

use crate::support::{
    cri::{Answer, Cri, Refused},
    failure::{Failure, Outcome},
};

/// Makes kubelet's calls in the background until the value is dropped.
#[derive(Debug)]
pub(crate) struct Kubelet {
    mind: Arc<Mind>,
    loops: JoinSet<()>,
}

/// The calls of a kubelet with default settings, and how many seconds it waits before it repeats each of them.
const HABITS: [(Question, u64); 9] = [
    (Question::Lists, 1),
    (Question::Housekeeping, 2),
    (Question::Status, 5),
    (Question::Version, 10),
    (Question::Statistics, 10),
    (Question::Disks, 10),
    (Question::Rotation, 10),
    (Question::Images, 30),
    (Question::Lists, 60),
];

/// Calls that kubelet makes only with features that are off by default.
const FEATURES: [(Question, u64); 2] = [(Question::PodStatistics, 10), (Question::Metrics, 10)];

#[derive(Clone, Copy, Debug)]
enum Question {
    /// Lists all pods and containers.
    Lists,
    /// Lists the running pods and containers.
    Housekeeping,
    Status,
    Version,
    /// The statistics that kubelet needs for evictions and its summary API.
    Statistics,
    /// The images' file system, and whether containers use another one.
    Disks,
    /// The statuses of all running containers, from which kubelet takes the log paths.
    Rotation,
    Images,
    PodStatistics,
    Metrics,
}

#[derive(Debug)]
struct Mind {
    cri: Cri,
    asked: AtomicU64,
    refused: Mutex<Option<String>>,
}

impl Kubelet {
    /// Starts the calls of a kubelet with default settings.
    pub(crate) fn of(cri: &Cri) -> Self {
        let mind = Mind { cri: cri.clone(), asked: AtomicU64::new(0), refused: Mutex::new(None) };
        let mut kubelet = Self { mind: Arc::new(mind), loops: JoinSet::new() };
        kubelet.takes_up(&HABITS);
        kubelet
    }

    /// Adds the calls for statistics and metrics of pods.
    pub(crate) fn with_features(mut self) -> Self {
        self.takes_up(&FEATURES);
        self
    }

    /// How many `Question`s have ended, including failed ones. A question can consist of several calls.
    #[allow(dead_code, reason = "the soak asks")]
    pub(crate) fn asked(&self) -> u64 {
        self.mind.asked.load(Ordering::Relaxed)
    }

    /// Returns the error of the first failed call, if a call has failed.
    pub(crate) fn is_content(&self) -> Outcome {
        match &*self.mind.refused.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(refusal) => Err(Failure(format!("kubelet was refused: {refusal}"))),
            None => Ok(()),
        }
    }

    fn takes_up(&mut self, habits: &[(Question, u64)]) {
        for &(question, seconds) in habits {
            let mind = Arc::clone(&self.mind);
            self.loops.spawn(async move {
                loop {
                    mind.wonders(question).await;
                    sleep(Duration::from_secs(seconds)).await;
                }
            });
        }
    }
}

impl Mind {
    async fn wonders(&self, question: Question) {
        let answer = self.ask(question).await;
        self.asked.fetch_add(1, Ordering::Relaxed);
        if let Err(refused) = answer {
            let mut first = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| refused.to_string());
        }
    }

    async fn ask(&self, question: Question) -> Answer {
        let cri = &self.cri;
        match question {
            Question::Lists => self.lists().await,
            Question::Housekeeping => self.housekeeping().await,
            Question::Status => cri.status(false).await.map(drop),
            Question::Version => cri.version().await.map(drop),
            Question::Statistics => {
                self.lists().await?;
                cri.all_stats(None).await.map(drop)
            }
            Question::Disks => {
                cri.disk().await?;
                cri.disk().await.map(drop)
            }
            Question::Rotation => self.rotation().await,
            Question::Images => cri.list_images().await.map(drop),
            Question::PodStatistics => cri.all_pod_stats(None).await.map(drop),
            Question::Metrics => cri.pod_metrics().await.map(drop),
        }
    }

    async fn lists(&self) -> Answer {
        self.cri.sandboxes().await?;
        self.cri.containers().await.map(drop)
    }

    async fn housekeeping(&self) -> Answer {
        self.cri.ready_sandboxes().await?;
        self.cri.running_containers().await.map(drop)
    }

    async fn rotation(&self) -> Answer {
        for container in self.cri.containers().await? {
            if container.state() == cri::ContainerState::ContainerRunning {
                // The container may have been removed since the list.
                unless(Code::NotFound, self.cri.container(&container.id).await)?;
            }
        }
        Ok(())
    }
}

/// Ignores an error with the code `code`.
fn unless<T>(code: Code, answer: Result<T, Refused>) -> Answer {
    match answer {
        Err(refused) if refused.code != code => Err(refused),
        _ => Ok(()),
    }
}
