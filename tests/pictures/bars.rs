//! Draws results of `make bench` as bars: each step of a pod's life with dockbridge, with the same engine
//! calls made directly, and with another CRI server if the recording has one (`make bench PEER=…`).

use super::{
    canvas::{Canvas, n},
    data::Recording,
};

pub(crate) fn draw() -> String {
    of(&Recording::read("bench"))
}

fn of(recording: &Recording) -> String {
    let columns = recording.lines.first().map(|head| columns(head)).unwrap_or_default();
    let rows: Vec<Row> =
        recording.lines.iter().filter_map(|line| Row::read(line, columns.len())).collect();
    let cost = |step: &str| {
        let row = rows.iter().find(|row| row.step == format!("pod {step}"));
        row.map_or_else(String::new, |row| format!("{step} {:+.0} %", 100.0 * (row.ratio() - 1.0)))
    };
    let mut canvas = Canvas::new(
        &format!("Time for a pod: {}, {}", cost("up"), cost("down")),
        "with dockbridge, and with the same raw calls by hand; medians in ms",
    );
    let mut x = 20.0;
    for (bar, name) in BARS.iter().zip(&columns) {
        canvas.rect((x, 70.0), (12.0, 12.0), bar.class);
        canvas.text(x + 18.0, 80.5, "s", bar.words.unwrap_or(name));
        x += bar.legend;
    }
    let longest = rows.iter().flat_map(|row| &row.medians).copied().fold(1.0, f64::max);
    let more = columns.len().saturating_sub(2) as f64 * BAR;
    let mut y = 104.0;
    for row in &rows {
        let sum = row.step.starts_with("pod ");
        if sum {
            canvas.line((20.0, y - 6.0), (460.0, y - 6.0), "l");
            y += 6.0;
        }
        canvas.text(20.0, y + 19.0, if sum { "t k" } else { "t" }, &row.step);
        for (place, (value, bar)) in row.medians.iter().zip(&BARS).enumerate() {
            let top = y + place as f64 * BAR;
            let width = value / longest * 192.0;
            canvas.rect((180.0, top), (width, 12.0), bar.class);
            canvas.text(186.0 + width, top + 10.8, "s", &format!("{value:.0}"));
        }
        canvas.text(460.0, y + 19.0, "t k end", &format!("×{:.2}", row.ratio()));
        y += more + if sum { 50.0 } else { 40.0 };
    }
    canvas.text(20.0, y + 10.0, "s", &recording.source());
    let about: Vec<String> = rows.iter().map(|row| row.about(&columns)).collect();
    canvas.finish(y + 26.0, "A pod's life beside the raw engine calls", &about.join("; "))
}

/// The names of the columns in the head of the table. Each name stands before a word `p50`.
fn columns(head: &str) -> Vec<String> {
    let words: Vec<&str> = head.split_whitespace().collect();
    let named = words.windows(2).filter(|pair| pair[1] == "p50");
    named.map(|pair| pair[0].to_owned()).collect()
}

/// A row of the table that `make bench` prints: a step, and the median of each column.
struct Row {
    step: String,
    medians: Vec<f64>,
}

impl Row {
    /// Reads a line of the table: the median and 90th percentile of dockbridge, then those of each other
    /// column, followed by the ratio.
    fn read(line: &str, columns: usize) -> Option<Self> {
        let (step, figures) = line.split_at_checked(30)?;
        let figures: Vec<f64> =
            figures.split_whitespace().filter_map(|figure| figure.parse().ok()).collect();
        let medians = figures.iter().enumerate().filter(|(at, _)| *at == 0 || at % 3 == 2);
        let complete = columns > 1 && figures.len() == columns * 3 - 1;
        complete.then(|| Self {
            step: step.trim().to_owned(),
            medians: medians.map(|(_, median)| *median).collect(),
        })
    }

    /// The median with dockbridge, divided by the median of the direct calls.
    fn ratio(&self) -> f64 {
        self.medians[0] / self.medians[1]
    }

    fn about(&self, columns: &[String]) -> String {
        let named = columns.iter().zip(&BARS).zip(&self.medians);
        let figures: Vec<String> = named
            .map(|((name, bar), median)| format!("{} {} ms", bar.short.unwrap_or(name), n(*median)))
            .collect();
        format!("{}: {}", self.step, figures.join(", "))
    }
}

/// How a column of the table is drawn. If `words` is `None`, the legend shows the name in the table's head.
struct Bar {
    class: &'static str,
    words: Option<&'static str>,
    short: Option<&'static str>,
    legend: f64,
}

const BARS: [Bar; 3] = [
    Bar { class: "a", words: None, short: None, legend: 110.0 },
    Bar {
        class: "d",
        words: Some("by hand, one after the other"),
        short: Some("by hand"),
        legend: 210.0,
    },
    Bar { class: "b", words: None, short: None, legend: 110.0 },
];
/// The distance between the tops of two bars.
const BAR: f64 = 15.0;

#[test]
fn a_peer_has_a_bar_of_its_own() {
    let head = "one pod                         dockbridge p50     p90         raw p50     p90    ratio        peer p50     p90    ratio";
    let step = "RunPodSandbox                           292.37  385.44          273.14  474.51     1.07          401.50  502.00     0.73";
    let apart = "(of it CNI ADD)                              –       –           76.05  102.99        –               –       –        –";
    let picture = of(&Recording::of(&[head, step, apart].join("\n")));
    for drawn in ["class=\"b\"", ">peer<", ">402<", "peer 401.5 ms", ">×1.07<"] {
        assert!(picture.contains(drawn), "{drawn}: {picture}");
    }
    assert!(!picture.contains("CNI ADD"));
}
