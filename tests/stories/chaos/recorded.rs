//! What callers were answered: it must stay true until they change it, or until the engine ends.
//! Lists are compared with it all the time.

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

/// Shared by all. Pods and containers alike are known by their ids.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) weather: ActiveFaults,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    there: BTreeMap<String, Standing>,
    gone: BTreeSet<String>,
    /// The engine ends what runs.
    mortal: bool,
    broken: BTreeSet<String>,
    counts: BTreeMap<&'static str, u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Ready, or running.
    Up,
    /// There, whatever its state.
    Known,
}

/// What holds at one moment.
#[derive(Clone, Debug)]
pub(super) struct Promises {
    there: BTreeMap<String, Standing>,
    gone: BTreeSet<String>,
}

impl Recorded {
    /// A create was answered.
    pub(super) fn created(&self, id: &str) {
        self.book().there.insert(id.to_owned(), Standing::Known);
    }

    /// It is ready, or running.
    pub(super) fn up(&self, id: &str) {
        let mut book = self.book();
        let standing = if book.mortal { Standing::Known } else { Standing::Up };
        book.there.insert(id.to_owned(), standing);
    }

    /// Somebody is about to stop it.
    pub(super) fn stops(&self, id: &str) {
        if let Some(standing) = self.book().there.get_mut(id) {
            *standing = Standing::Known;
        }
    }

    /// Somebody is about to remove it.
    pub(super) fn leaves(&self, id: &str) {
        self.book().there.remove(id);
    }

    /// Its removal was answered.
    pub(super) fn gone(&self, id: &str) {
        let mut book = self.book();
        book.there.remove(id);
        book.gone.insert(id.to_owned());
    }

    /// The engine is about to end what runs, or has done it.
    pub(super) fn all_may_end(&self, mortal: bool) {
        let mut book = self.book();
        book.mortal = mortal;
        book.there.values_mut().for_each(|standing| *standing = Standing::Known);
    }

    /// Whether the engine died since the story began.
    pub(super) fn engine_died(&self) -> bool {
        self.book().counts.contains_key(DEATHS)
    }

    /// Whether it was told to be ready, or running.
    pub(super) fn is_up(&self, id: &str) -> bool {
        self.book().there.get(id) == Some(&Standing::Up)
    }

    /// Something that must not be.
    pub(super) fn breaks(&self, what: String) {
        self.book().broken.insert(what);
    }

    /// All of it.
    pub(super) fn broken(&self) -> Vec<String> {
        self.book().broken.iter().cloned().collect()
    }

    /// One more of these.
    pub(super) fn count(&self, what: &'static str) {
        *self.book().counts.entry(what).or_default() += 1;
    }

    /// What was counted.
    pub(super) fn summary(&self) -> String {
        let counts: Vec<_> =
            self.book().counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        counts.join(", ")
    }

    /// What holds now.
    pub(super) fn promises(&self) -> Promises {
        let book = self.book();
        Promises { there: book.there.clone(), gone: book.gone.clone() }
    }

    /// Compares the state of one with what held before and after it was asked for.
    pub(super) fn compare_one(&self, before: &Promises, id: &str, state: &str) {
        let there = before.there.get_key_value(id).map(|(id, it)| (id.clone(), *it));
        let before = Promises { there: there.into_iter().collect(), gone: BTreeSet::new() };
        self.compare(&before, &BTreeMap::from([(id.to_owned(), state.to_owned())]));
    }

    /// Compares what is listed with what held before and after the list was asked for.
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

    /// Lists all the time.
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

/// Ids of all pods and containers with their states.
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

/// What is counted when the engine is killed or stopped.
pub(super) const DEATHS: &str = "ends of the engine";
const UP: [&str; 2] = ["SANDBOX_READY", "CONTAINER_RUNNING"];
