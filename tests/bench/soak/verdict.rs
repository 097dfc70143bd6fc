//! When a curve counts as growing. Medians are used because pods come and go during the run. Thirds are
//! used because some values grow only at first, but a leak grows until the end.

/// One measurement: seconds since the first, and the value.
pub(crate) type Sample = (f64, f64);

/// How much the middle of a curve may change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slack {
    /// In the curve's own unit.
    pub(crate) amount: f64,
    /// And this part of its height.
    pub(crate) share: f64,
}

/// The verdict on a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// It did not grow.
    Flat,
    /// It has grown by more than the slack, and did so in its last third as well.
    Growing,
    /// There are too few samples.
    Unknown,
}

/// A judged curve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judgement {
    /// The verdict.
    pub(crate) verdict: Verdict,
    /// Where each third after the warm-up begins, and its median.
    pub(crate) thirds: [Sample; 3],
    /// How much it grew from the first third to the last.
    pub(crate) growth: f64,
}

impl Judgement {
    /// Judges a curve without its first fifth, in which caches fill and pools grow.
    pub(crate) fn of(samples: &[Sample], slack: Slack) -> Self {
        let settled = &samples[samples.len() / 5..];
        let length = settled.len() / 3;
        if length < FEWEST {
            return Self { verdict: Verdict::Unknown, thirds: [(0.0, 0.0); 3], growth: 0.0 };
        }
        let thirds = [0, 1, 2].map(|third| {
            let part = &settled[third * length..][..length];
            (part[0].0, median(part))
        });
        let [first, second, third] = thirds.map(|(_, median)| median);
        let growth = third - first;
        let allowed = slack.amount + slack.share * first;
        let grows = growth > allowed && third - second > allowed / 4.0;
        let verdict = if grows { Verdict::Growing } else { Verdict::Flat };
        Self { verdict, thirds, growth }
    }
}

fn median(samples: &[Sample]) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(|(_, value)| *value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The number of samples that a third needs.
const FEWEST: usize = 8;
