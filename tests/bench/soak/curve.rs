//! One measured value over time, and the verdict on it.

use super::verdict::{Judgement, Sample, Slack, Verdict};

/// A curve with its verdict.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// The name of the measured value, with its unit.
    pub(crate) name: &'static str,
    /// The samples, in the order in which they were taken.
    pub(crate) samples: Vec<Sample>,
    /// The verdict on the curve.
    pub(crate) judgement: Judgement,
    slack: Slack,
}

impl Curve {
    /// Judges the samples.
    pub(crate) fn new(name: &'static str, samples: Vec<Sample>, slack: Slack) -> Self {
        let judgement = Judgement::of(&samples, slack);
        Self { name, samples, judgement, slack }
    }

    /// Whether the verdict is [`Verdict::Growing`], which fails the soak test.
    pub(crate) fn grows(&self) -> bool {
        self.judgement.verdict == Verdict::Growing
    }

    /// The verdict as text.
    pub(crate) fn says(&self) -> String {
        let medians = self.judgement.thirds.map(|(_, median)| format!("{median:.1}")).join(" → ");
        let word = match self.judgement.verdict {
            Verdict::Flat => "flat",
            Verdict::Growing => "GROWING",
            Verdict::Unknown => return "too few samples".to_owned(),
        };
        format!("{word}, medians of the thirds {medians} ({:+.1})", self.judgement.growth)
    }

    /// The range of the value axis in a chart. The range is wide enough that a change within the tolerance
    /// does not look large.
    pub(crate) fn frame(&self) -> (f64, f64) {
        let values = || self.samples.iter().map(|(_, value)| *value);
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(low, f64::max);
        let least = 2.0 * (self.slack.amount + self.slack.share * high);
        let lacking = (least - (high - low)).max(0.0);
        ((low - lacking / 2.0).max(0.0), high + lacking / 2.0)
    }
}
