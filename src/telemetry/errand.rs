//! What others are asked to do for us: listed while it is under way, shown by a span where there is
//! one, and timed by how it ends. Given up, it counts as cancelled: whoever waited has left.

use std::{borrow::Cow, time::Duration};

use tracing::Span;

use super::{
    meter::{By, Timed, Timings},
    registry::Registry,
    trace::Shown,
    underway::{Ongoing, Underway},
};
use crate::error::Kind;

/// Errands of a room, told apart by `N` labels, the last of which is the outcome. Clones count
/// together.
#[derive(Clone, Debug, Default)]
pub struct Errands<const N: usize> {
    took: By<Timings, N>,
    underway: Underway,
}

impl<const N: usize> Errands<N> {
    /// One begins: of which sort, what it is in words for people, and its labels but for the last,
    /// which is the outcome's.
    pub fn begin(
        &self,
        kind: &'static str,
        what: impl Into<Cow<'static, str>>,
        mut labels: [&'static str; N],
    ) -> Errand<N> {
        if let Some(outcome) = labels.last_mut() {
            *outcome = Kind::Cancelled.word();
        }
        Errand {
            timed: self.took.begin(labels),
            shown: None,
            _underway: self.underway.begin(kind, what),
        }
    }

    /// Those under way.
    pub const fn underway(&self) -> &Underway {
        &self.underway
    }

    /// Shows their times under this name, and what is under way.
    pub fn register(
        &self,
        registry: &mut Registry,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) {
        registry.show_by(name, labels, help, &self.took);
        registry.watch(&self.underway);
    }
}

/// An errand until its end.
#[derive(Debug)]
#[must_use = "it ends when this is dropped"]
pub struct Errand<const N: usize> {
    timed: Timed<N>,
    shown: Option<Shown>,
    _underway: Ongoing,
}

impl<const N: usize> Errand<N> {
    /// The span that shows it.
    pub fn shown_by(self, span: &Span) -> Self {
        Self { shown: Some(Shown::by(span)), ..self }
    }

    /// It has ended, with this outcome or this failure; how long it took.
    pub fn ended(self, outcome: &'static str, failure: Option<Kind>) -> Duration {
        if let Some(shown) = self.shown {
            shown.ended(failure);
        }
        self.timed.ended(outcome)
    }
}

/// The label of what came to a good end.
pub const DONE: &str = "ok";
