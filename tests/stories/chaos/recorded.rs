//! Records the answers that CRI clients got. These answers must stay true until a client changes the pod or container.
//! If the engine may have ended it, it must exist, but need not run. A task repeatedly compares lists with the answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use dockbridge::wire::cri;
use tokio::time::{sleep, timeout};

use super::active_faults::ActiveFaults;
use crate::support::{cri::Cri, failure::Outcome, patience::patient};

/// The recorded answers of all clients. Pods and containers are identified by their ids.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) weather: ActiveFaults,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    there: BTreeMap<String, Standing>,
    gone: BTreeSet<String>,
    /// Whether the engine may be ending all running containers.
    mortal: bool,
    broken: BTreeSet<String>,
    counts: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The pod must be ready, or the container must run.
    Up,
    /// The pod or container must exist, in any state.
    Known,
}

/// What lists must show at one moment, and which ids they must not show.
#[derive(Clone, Debug)]
pub(super) struct Promises {
    there: BTreeMap<String, Standing>,
    gone: BTreeSet<String>,
}

impl Recorded {
    /// Records that the create of a pod or container succeeded.
    pub(super) fn created(&self, id: &str) {
        self.book().there.insert(id.to_owned(), Standing::Known);
    }

    /// Records that a pod is ready, or that a container runs.
    pub(super) fn up(&self, id: &str) {
        let mut book = self.book();
        let standing = if book.mortal { Standing::Known } else { Standing::Up };
        book.there.insert(id.to_owned(), standing);
    }

    /// Records that a client is about to stop the pod or container.
    pub(super) fn stops(&self, id: &str) {
        if let Some(standing) = self.book().there.get_mut(id) {
            *standing = Standing::Known;
        }
    }

    /// Records that a client is about to remove the pod or container.
    pub(super) fn leaves(&self, id: &str) {
        self.book().there.remove(id);
    }

    /// Records that the removal of a pod or container succeeded.
    pub(super) fn gone(&self, id: &str) {
        let mut book = self.book();
        book.there.remove(id);
        book.gone.insert(id.to_owned());
    }

    /// Records that from now on the engine may end all running containers, or that this is over.
    pub(super) fn all_may_end(&self, mortal: bool) {
        let mut book = self.book();
        book.mortal = mortal;
        book.there.values_mut().for_each(|standing| *standing = Standing::Known);
    }

    /// Whether the engine was killed or stopped since the story began.
    pub(super) fn engine_died(&self) -> bool {
        self.book().counts.contains_key(DEATHS)
    }

    /// Whether the pod or container must still run: its start succeeded, and since then no client has begun to stop or
    /// remove it, and the engine could not end all containers.
    pub(super) fn is_up(&self, id: &str) -> bool {
        self.book().there.get(id) == Some(&Standing::Up)
    }

    /// Records a violation, for example an answer that contradicts recorded answers.
    pub(super) fn breaks(&self, what: String) {
        self.book().broken.insert(what);
    }

    /// All violations that were found.
    pub(super) fn broken(&self) -> Vec<String> {
        self.book().broken.iter().cloned().collect()
    }

    /// Adds one to the counter `what`.
    pub(super) fn count(&self, what: &'static str) {
        *self.book().counts.entry(what).or_default() += 1;
    }

    /// A text with all counters.
    pub(super) fn summary(&self) -> String {
        let counts: Vec<_> =
            self.book().counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        counts.join(", ")
    }

    /// What lists must show now.
    pub(super) fn promises(&self) -> Promises {
        let book = self.book();
        Promises { there: book.there.clone(), gone: book.gone.clone() }
    }

    /// Compares the status of one pod or container with what it had to show both before and after the request.
    pub(super) fn compare_one(&self, before: &Promises, id: &str, state: &str) {
        let there = before.there.get_key_value(id).map(|(id, it)| (id.clone(), *it));
        let before = Promises { there: there.into_iter().collect(), gone: BTreeSet::new() };
        self.compare(&before, &BTreeMap::from([(id.to_owned(), state.to_owned())]));
    }

    /// Compares a list with what it had to show both before and after the request.
    pub(super) fn compare(&self, before: &Promises, listed: &BTreeMap<String, String>) {
        let after = self.promises();
        for (id, standing) in &before.there {
            if after.there.get(id) != Some(standing) {
                continue;
            }
            match (standing, listed.get(id).map(String::as_str)) {
                (_, None) => self.breaks(format!("{id} is not listed, though it is {standing:?}")),
                (Standing::Up, Some(state)) if !UP.contains(&state) => {
                    self.breaks(format!("{id} is listed as {state}, though it is up"));
                }
                _ => {}
            }
        }
        for id in before.gone.iter().filter(|id| listed.contains_key(*id)) {
            self.breaks(format!("{id} is listed, though it was removed"));
        }
    }

    /// Lists pods and containers repeatedly until the task is aborted.
    pub(super) async fn watch(&self, socket: &Path) {
        loop {
            let (calm, before) = (self.weather.moment(), self.promises());
            match timeout(patient(Duration::from_secs(20)), listed(socket)).await {
                Ok(Ok(listed)) => {
                    self.compare(&before, &listed);
                    self.count("lists");
                }
                Ok(Err(why)) if self.weather.lasted(calm) => {
                    self.breaks(format!("a list failed though nothing was wrong: {why}"));
                }
                Err(_late) if self.weather.lasted(calm) => {
                    self.breaks("a list was not answered though nothing was wrong".to_owned());
                }
                _ => {}
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lists the ids of all pods and containers with their states.
async fn listed(socket: &Path) -> Outcome<BTreeMap<String, String>> {
    let cri = Cri::connect(socket).await?;
    let pods = cri.sandboxes().await?;
    let containers = cri.containers().await?;
    let pods = pods.into_iter().map(|pod| {
        let state = pod.state().as_str_name();
        (pod.id, state.to_owned())
    });
    let containers = containers.into_iter().map(|one: cri::Container| {
        let state = one.state().as_str_name();
        (one.id, state.to_owned())
    });
    Ok(pods.chain(containers).collect())
}

/// The name of the counter for kills and stops of the engine.
pub(super) const DEATHS: &str = "ends of the engine";
const UP: [&str; 2] = ["SANDBOX_READY", "CONTAINER_RUNNING"];
