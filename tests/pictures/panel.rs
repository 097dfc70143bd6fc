//! A panel of a dashboard: a title, one or two curves, and a scale.

use std::fmt::Write as _;

use super::canvas::{Canvas, n};

/// A panel of a dashboard: its title, the unit, and the curves, each with a CSS class, a name and values.
pub(crate) struct Panel {
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) curves: Vec<(&'static str, &'static str, Vec<f64>)>,
}

/// Draws the panels in rows of two, and returns the bottom edge.
pub(crate) fn draw_all(canvas: &mut Canvas, panels: &[Panel], minutes: f64) -> f64 {
    for (place, panel) in panels.iter().enumerate() {
        let (column, row) = (small(place % 2), small(place / 2));
        panel.draw(canvas, (20.0 + column * 226.0, 72.0 + row * 142.0), minutes);
    }
    canvas.style(STYLE);
    72.0 + 142.0 * small(panels.len().div_ceil(2)) + 8.0
}

/// A text with the largest value of each panel, for people who cannot see the picture.
pub(crate) fn described(panels: &[Panel]) -> String {
    let most =
        |panel: &Panel| format!("{}: at most {} {}", panel.title, n(panel.most()), panel.unit);
    panels.iter().map(most).collect::<Vec<String>>().join("; ")
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

/// A round number that is at least `value`, for the upper end of a scale.
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
const STYLE: &str = ".curve{fill:none;stroke-width:2;stroke-linejoin:round}.ca{stroke:var(--A)}.cb{stroke:var(--B)}.wide{stroke-width:5;opacity:.45}.fa{fill:var(--a);opacity:.6}";
