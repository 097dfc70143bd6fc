//! Decides whether a curve grows. Medians are used because pods come and go during the run. Thirds are used
//! because some values grow only at first, but a leak grows until the end.

/// One measurement: the seconds since the start of the sampling, and the value.
pub(crate) type Sample = (f64, f64);

/// The tolerance for the growth of a curve: `amount`, in the unit of the curve, plus the fraction `share` of the first
/// third's median.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slack {
    pub(crate) amount: f64,
    pub(crate) share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// There are enough samples for a verdict, and the curve is not [`Self::Growing`].
    Flat,
    /// From the first third to the last, the median has grown by more than the tolerance, and from the second third to
    /// the last by more than a quarter of the tolerance.
    Growing,
    /// There are too few samples for a verdict.
    Unknown,
}

/// A judged curve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    /// The start time and the median of each third after the warm-up, or zeros if the verdict is unknown.
    pub(crate) thirds: [Sample; 3],
    /// How much the curve's median grew from the first third to the last, or zero if the verdict is unknown.
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
