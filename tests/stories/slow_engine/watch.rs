//! Runs a client that lists pods and containers up to twenty times a second from the start of dockbridge, and
//! compares every list with the recorded lists.

use std::{path::Path, time::Duration};

use tokio::{
    sync::watch,
    time::{self, Instant, MissedTickBehavior, timeout},
};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::expected::{Expected, shortened};
use crate::support::{
    cri::{Answer, Cri},
    failure::{Outcome, fail},
    patience::patient,
};

/// A client that starts together with dockbridge.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    socket: &'a Path,
    noted: &'a Expected,
    began: Instant,
    /// The time at which the first list arrived, or `None` before that.
    first: watch::Sender<Option<Instant>>,
    end: CancellationToken,
}

/// The counted answers so far.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// The number of lists that arrived.
    pub(crate) answers: usize,
    /// The number of lists that differ from the recorded answers.
    pub(crate) wrong: usize,
    /// The number of list calls that failed with an error that [`Watch::may_be_refused`] allows.
    pub(crate) refusals: usize,
    /// The first differences. If the same difference comes several times in a row, it is recorded once.
    pub(crate) faults: Vec<String>,
    last: String,
}

#[derive(Clone, Copy, Debug)]
enum List {
    Pods,
    Containers,
}

impl<'a> Watch<'a> {
    /// A client of a dockbridge that is just being started.
    pub(crate) fn begin(socket: &'a Path, noted: &'a Expected) -> Self {
        let (first, end) = (watch::Sender::new(None), CancellationToken::new());
        Self { socket, noted, began: Instant::now(), first, end }
    }

    /// Lists pods and containers while `work` runs.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> (T, Heard) {
        let work = async {
            let done = work.await;
            self.end.cancel();
            done
        };
        let (done, mut all, other) =
            tokio::join!(work, self.follow(List::Pods), self.follow(List::Containers));
        all.answers += other.answers;
        all.wrong += other.wrong;
        all.refusals += other.refusals;
        all.faults.extend(other.faults);
        (done, all)
    }

    /// Waits for the first list, and returns how long it took.
    pub(crate) async fn first(&self) -> Outcome<Duration> {
        let mut first = self.first.subscribe();
        let came = timeout(patient(FIRST_WITHIN), first.wait_for(Option::is_some)).await;
        match came.map(|came| came.ok().and_then(|at| *at)) {
            Ok(Some(at)) => Ok(at - self.began),
            _ => fail!("nothing was listed within {FIRST_WITHIN:?}"),
        }
    }

    async fn follow(&self, list: List) -> Heard {
        let mut heard = Heard::default();
        let mut clock = time::interval(EVERY);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut cri = None;
        while !self.end.is_cancelled() {
            clock.tick().await;
            let asked = Instant::now();
            match self.ask(&mut cri, list).await {
                Ok(wrong) => {
                    heard.answers += 1;
                    self.first.send_if_modified(|first| {
                        let is_first = first.is_none();
                        first.get_or_insert_with(Instant::now);
                        is_first
                    });
                    if !wrong.is_empty() {
                        heard.wrong += 1;
                        self.blame(&mut heard, list, shortened(&wrong));
                    }
                }
                Err(why) if self.may_be_refused(asked, &why) => heard.refusals += 1,
                Err(why) => self.blame(&mut heard, list, why.to_string()),
            }
        }
        heard
    }

    async fn ask(&self, cri: &mut Option<Cri>, list: List) -> Result<Vec<String>, Refusal> {
        let cri = match cri {
            Some(cri) => cri,
            None => {
                cri.insert(Cri::connect(self.socket).await.map_err(|why| Refusal::Deaf(why.0))?)
            }
        };
        let wrong: Answer<_> = match list {
            List::Pods => cri.sandboxes().await.map(|told| self.noted.wrong_pods(&told)),
            List::Containers => {
                cri.containers().await.map(|told| self.noted.wrong_containers(&told))
            }
        };
        wrong.map_err(|refused| Refusal::Refused(refused.code, refused.message))
    }

    /// Whether the list call made at the time `asked` may have failed with this error: only without a connection
    /// or with `Unavailable`, and only if no list had arrived before `asked`.
    fn may_be_refused(&self, asked: Instant, why: &Refusal) -> bool {
        let is_honest = !matches!(why, Refusal::Refused(code, _) if *code != Code::Unavailable);
        is_honest && self.first.borrow().is_none_or(|first| asked < first)
    }

    /// Records a difference, unless it is the same as the last recorded one, or [`TOLD`] were recorded.
    fn blame(&self, heard: &mut Heard, list: List, why: String) {
        if heard.last != why && heard.faults.len() < TOLD {
            let after = self.began.elapsed().as_secs_f32();
            heard.faults.push(format!("{list:?} {after:.2} s after the start: {why}"));
            heard.last = why;
        }
    }
}

/// Why a list call returned no list.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("nobody listens: {0}")]
    Deaf(String),
    #[error("{0:?}: {1}")]
    Refused(Code, String),
}

const EVERY: Duration = Duration::from_millis(50);
/// A time limit that is longer than dockbridge waits for an inspect that hangs.
const FIRST_WITHIN: Duration = Duration::from_secs(30);
/// Maximum number of recorded differences for each kind of list.
const TOLD: usize = 3;
