//! The bench: each step of a pod's life through dockbridge beside the same calls made by hand.

use super::{
    canvas::{Canvas, n},
    data::Recording,
};

/// A row of the table that `make bench` prints.
struct Row {
    step: String,
    ours: f64,
    raw: f64,
}

pub(crate) fn draw() -> String {
    let recording = Recording::read("bench");
    let rows: Vec<Row> = recording.lines.iter().filter_map(|line| Row::read(line)).collect();
    let mut canvas = Canvas::new(
        "A pod through dockbridge, and by hand",
        "medians in ms, beside the same engine calls and plugin runs",
    );
    for (x, class, words) in
        [(20.0, "a", "dockbridge"), (130.0, "d", "by hand, one after the other")]
    {
        canvas.rect((x, 70.0), (12.0, 12.0), class);
        canvas.text(x + 18.0, 80.5, "s", words);
    }
    let longest = rows.iter().map(|row| row.ours.max(row.raw)).fold(1.0, f64::max);
    let mut y = 104.0;
    for row in &rows {
        let sum = row.step.starts_with("pod ");
        if sum {
            canvas.line((20.0, y - 6.0), (460.0, y - 6.0), "l");
            y += 6.0;
        }
        canvas.text(20.0, y + 19.0, if sum { "t k" } else { "t" }, &row.step);
        for (place, (value, class)) in [(row.ours, "a"), (row.raw, "d")].into_iter().enumerate() {
            let top = y + if place == 0 { 0.0 } else { 15.0 };
            let width = value / longest * 192.0;
            canvas.rect((180.0, top), (width, 12.0), class);
            canvas.text(186.0 + width, top + 10.8, "s", &format!("{value:.0}"));
        }
        let ratio = row.ours / row.raw;
        canvas.text(460.0, y + 19.0, "t k end", &format!("×{ratio:.2}"));
        y += if sum { 50.0 } else { 40.0 };
    }
    canvas.text(20.0, y + 10.0, "s", &recording.source());
    let about: Vec<String> = rows
        .iter()
        .map(|row| {
            format!("{}: dockbridge {} ms, by hand {} ms", row.step, n(row.ours), n(row.raw))
        })
        .collect();
    canvas.finish(y + 26.0, "A pod's life beside the raw engine calls", &about.join("; "))
}

impl Row {
    /// Step, median and 90th percentile of dockbridge, the same of the raw calls, ratio.
    fn read(line: &str) -> Option<Self> {
        let (step, figures) = line.split_at_checked(30)?;
        let figures: Vec<f64> =
            figures.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
        let [ours, _, raw, _, _] = figures[..] else { return None };
        Some(Self { step: step.trim().to_owned(), ours, raw })
    }
}
