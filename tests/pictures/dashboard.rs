//! What the dashboard shows while twelve pods come and go: panels filled from recorded scrapes.

use std::fmt::Write as _;

use super::{
    canvas::{Canvas, n},
    data::Recording,
};

/// A panel: what it shows, its unit, and its curves with a colour and a name each.
struct Panel {
    title: &'static str,
    unit: &'static str,
    curves: Vec<(&'static str, &'static str, Vec<f64>)>,
}

/// Scrapes, by column.
struct Scrapes {
    names: Vec<String>,
    rows: Vec<Vec<f64>>,
}

pub(crate) fn draw() -> String {
    let recording = Recording::read("metrics");
    let scrapes = Scrapes::read(&recording.lines);
    let mut canvas =
        Canvas::new("Twelve pods come and go", "each of them writes some 2,000 lines a second");
    let minutes = scrapes.column("seconds").last().copied().unwrap_or_default() / 60.0;
    let panels = panels(&scrapes);
    for (place, panel) in panels.iter().enumerate() {
        let (column, row) = (small(place % 2), small(place / 2));
        panel.draw(&mut canvas, (20.0 + column * 226.0, 72.0 + row * 142.0), minutes);
    }
    let bottom = 72.0 + 142.0 * small(panels.len() / 2) + 8.0;
    canvas.text(20.0, bottom + 2.0, "s", &recording.source());
    canvas.style(".curve{fill:none;stroke-width:2;stroke-linejoin:round}.ca{stroke:var(--A)}.cb{stroke:var(--B)}.wide{stroke-width:5;opacity:.45}.fa{fill:var(--a);opacity:.6}");
    let about: Vec<String> = panels
        .iter()
        .map(|panel| format!("{}: at most {} {}", panel.title, n(panel.most()), panel.unit))
        .collect();
    canvas.finish(
        bottom + 18.0,
        "Metrics of dockbridge while twelve pods come and go",
        &about.join("; "),
    )
}

fn panels(scrapes: &Scrapes) -> Vec<Panel> {
    let one = |title, unit, values| Panel { title, unit, curves: vec![("ca", "", values)] };
    let scaled = |values: Vec<f64>, by: f64| values.iter().map(|value| value * by).collect();
    vec![
        Panel {
            title: "running",
            unit: "",
            curves: vec![
                ("ca wide", "pods", scrapes.column("pods")),
                ("cb", "containers", scrapes.column("containers")),
            ],
        },
        one("CRI calls", "a second", scrapes.rate("calls", "seconds")),
        one("time of a CRI call", "ms", scaled(scrapes.rate("call_seconds", "calls"), 1000.0)),
        one("Docker requests", "a second", scrapes.rate("engine_calls", "seconds")),
        one("container logs", "MB/s", scaled(scrapes.rate("log_bytes", "seconds"), 1e-6)),
        one("memory", "MB", scaled(scrapes.column("resident_bytes"), 1e-6)),
        one("CPU", "% of a core", scaled(scrapes.rate("cpu_seconds", "seconds"), 100.0)),
        one(
            "time of a Docker request",
            "ms",
            scaled(scrapes.rate("engine_seconds", "engine_calls"), 1000.0),
        ),
    ]
}

impl Scrapes {
    fn read(lines: &[String]) -> Self {
        let mut lines = lines.iter().map(|line| line.split(' '));
        let names = lines.next().unwrap().map(str::to_owned).collect();
        let rows = lines.map(|row| row.map(|value| value.parse().unwrap()).collect()).collect();
        Self { names, rows }
    }

    fn column(&self, name: &str) -> Vec<f64> {
        let place = self.names.iter().position(|one| one == name).unwrap();
        self.rows.iter().map(|row| row[place]).collect()
    }

    /// How much one column grows while another grows by one, over ten seconds.
    fn rate(&self, of: &str, by: &str) -> Vec<f64> {
        let (of, by) = (self.column(of), self.column(by));
        let before = |place: usize| place.saturating_sub(5);
        let rate = |place: usize| {
            let grown = by[place] - by[before(place)];
            if grown > 0.0 { (of[place] - of[before(place)]) / grown } else { 0.0 }
        };
        (0..of.len()).map(rate).collect()
    }
}

impl Panel {
    fn most(&self) -> f64 {
        self.curves.iter().flat_map(|(_, _, values)| values).copied().fold(0.0, f64::max)
    }

    fn draw(&self, canvas: &mut Canvas, at: (f64, f64), minutes: f64) {
        let top = round_up(self.most());
        let title = if self.unit.is_empty() {
            self.title.to_owned()
        } else {
            format!("{}, {}", self.title, self.unit)
        };
        canvas.text(at.0, at.1 + 12.0, "t", &title);
        let (left, floor) = (at.0 + 34.0, at.1 + 108.0);
        for part in [0.0, 0.5, 1.0] {
            let y = floor - part * TALL;
            canvas.line((left, y), (left + WIDE, y), "l");
            canvas.text(left - 6.0, y + 4.5, "s end", &n(top * part));
        }
        for (class, _, values) in &self.curves {
            let curve = self.curve(values, top, (left, floor));
            if self.curves.len() == 1 {
                canvas.path(
                    &format!("{curve}L{} {}L{} {}z", n(left + WIDE), n(floor), n(left), n(floor)),
                    "fa",
                );
            }
            canvas.path(&curve, &format!("curve {class}"));
        }
        let mut x = at.0 + 66.0;
        for (class, name, _) in self.curves.iter().filter(|(_, name, _)| !name.is_empty()) {
            canvas.line((x, at.1 + 8.0), (x + 12.0, at.1 + 8.0), &format!("curve {class}"));
            canvas.text(x + 16.0, at.1 + 12.0, "s", name);
            x += 60.0;
        }
        canvas.text(left, floor + 15.0, "s", "0");
        canvas.text(left + WIDE, floor + 15.0, "s end", &format!("{minutes:.0} min"));
    }

    fn curve(&self, values: &[f64], top: f64, (left, floor): (f64, f64)) -> String {
        let step = WIDE / small(values.len().max(2) - 1);
        let mut curve = String::new();
        for (place, value) in values.iter().enumerate() {
            let (x, y) = (left + small(place) * step, floor - value / top * TALL);
            let _ = write!(curve, "{}{} {}", if place == 0 { "M" } else { "L" }, n(x), n(y));
        }
        curve
    }
}

/// The next figure that is easily halved.
fn round_up(value: f64) -> f64 {
    let size = 10_f64.powf(value.max(0.1).log10().floor());
    let steps = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * size).find(|step| *step >= value).unwrap_or(value)
}

fn small(value: usize) -> f64 {
    f64::from(u16::try_from(value).unwrap())
}

const WIDE: f64 = 180.0;
const TALL: f64 = 84.0;
