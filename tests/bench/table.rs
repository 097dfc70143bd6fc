//! A table of measured times by step and server.

use std::time::{Duration, Instant};

use crate::wanted;

/// The rows are in the order in which the steps were first added.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    step: &'static str,
    times: Vec<(&'static str, Vec<f64>)>,
}

impl Table {
    /// Adds one measured time of a server.
    pub(crate) fn note(&mut self, contestant: &'static str, step: &'static str, took: Duration) {
        self.samples(contestant, step).push(took.as_secs_f64() * 1000.0);
    }

    /// Adds the time since `begun`.
    pub(crate) fn since(&mut self, contestant: &'static str, step: &'static str, begun: Instant) {
        self.note(contestant, step, begun.elapsed());
    }

    /// Adds all times of another table.
    pub(crate) fn merge(&mut self, other: Self) {
        for row in other.rows {
            for (contestant, times) in row.times {
                self.samples(contestant, row.step).extend(times);
            }
        }
    }

    /// Prints the medians, the 90th percentiles, and the ratios of the first server's median to the others' medians.
    pub(crate) fn print(&self, title: &str) {
        let mut contestants: Vec<&str> = Vec::new();
        for (contestant, _) in self.rows.iter().flat_map(|row| &row.times) {
            if !contestants.contains(contestant) {
                contestants.push(contestant);
            }
        }
        print!("{title:<30}");
        for (place, contestant) in contestants.iter().enumerate() {
            print!("{:>12} p50{:>8}", contestant, "p90");
            if place > 0 {
                print!("{:>9}", "ratio");
            }
        }
        println!();
        for row in &self.rows {
            row.print(&contestants);
        }
        println!();
    }

    /// Prints whether dockbridge's median of a step is at most this many milliseconds.
    pub(crate) fn wants(&self, step: &str, most: f64) {
        let row = self.rows.iter().find(|row| row.step == step);
        if let Some(median) = row.and_then(|row| row.quantile(OURS, 50)) {
            wanted::at_most(&format!("{step}, ms"), median, most);
        }
    }

    /// Prints whether dockbridge's median of a step is at most this multiple of the median of `other`.
    pub(crate) fn wants_ratio(&self, step: &str, other: &str, most: f64) {
        let row = self.rows.iter().find(|row| row.step == step);
        let medians = row.and_then(|row| row.quantile(OURS, 50).zip(row.quantile(other, 50)));
        if let Some((own, other)) = medians {
            wanted::at_most(&format!("{step}, times the raw calls"), own / other, most);
        }
    }

    /// Prints for each call whether the median of `who` is at most this many milliseconds more than that of `other`.
    pub(crate) fn wants_added(&self, who: &str, other: &str, most: f64) {
        // A row whose name does not begin with a capital letter is not a single call, and is skipped.
        for row in self.rows.iter().filter(|row| row.step.starts_with(char::is_uppercase)) {
            if let Some((more, less)) = row.quantile(who, 50).zip(row.quantile(other, 50)) {
                let what = format!("{}, {who} − {other}, ms", row.step);
                wanted::at_most(&what, more - less, most);
            }
        }
    }

    fn samples(&mut self, contestant: &'static str, step: &'static str) -> &mut Vec<f64> {
        let place = self.rows.iter().position(|row| row.step == step).unwrap_or_else(|| {
            self.rows.push(Row { step, times: Vec::new() });
            self.rows.len() - 1
        });
        let times = &mut self.rows[place].times;
        let place = times.iter().position(|(name, _)| *name == contestant).unwrap_or_else(|| {
            times.push((contestant, Vec::new()));
            times.len() - 1
        });
        &mut times[place].1
    }
}

impl Row {
    fn print(&self, contestants: &[&str]) {
        print!("{:<30}", self.step);
        let own = self.quantile(contestants.first().copied().unwrap_or_default(), 50);
        for (place, contestant) in contestants.iter().enumerate() {
            match (self.quantile(contestant, 50), self.quantile(contestant, 90)) {
                (Some(median), Some(late)) => print!("{median:>16.2}{late:>8.2}"),
                _ => print!("{:>16}{:>8}", "–", "–"),
            }
            if place > 0 {
                match (own, self.quantile(contestant, 50)) {
                    (Some(own), Some(other)) if other > 0.0 => print!("{:>9.2}", own / other),
                    _ => print!("{:>9}", "–"),
                }
            }
        }
        println!();
    }

    /// The value that at least `percent` % of a server's times do not exceed.
    fn quantile(&self, contestant: &str, percent: usize) -> Option<f64> {
        let (_, times) = self.times.iter().find(|(name, _)| *name == contestant)?;
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied()
    }
}

/// The server that [`Table::wants`] and [`Table::wants_ratio`] judge.
const OURS: &str = "dockbridge";
