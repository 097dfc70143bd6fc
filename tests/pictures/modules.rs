//! The modules by level, with their imports as arrows. An arrow is left out if a chain of other arrows leads
//! to the same module.

use std::collections::{BTreeMap, BTreeSet};

use super::canvas::{Canvas, WIDTH, n};
use crate::{
    levels::{LEVELS, level, module_of},
    source,
};

/// A place in a row of the picture: a module, or the point where an arrow crosses a level.
struct Place {
    name: String,
    /// Half of the place's width.
    half: f64,
    x: f64,
    /// The places in other rows that arrows connect with this place, by row and index.
    joined: Vec<(usize, usize)>,
}

/// A part of an arrow between two rows. The two ends of a part are places, given by row and index.
#[derive(PartialEq)]
struct Part {
    from: (usize, usize),
    to: (usize, usize),
    /// Whether the arrow ends at the lower place of this part.
    ends: bool,
}

struct Rows {
    rows: Vec<Vec<Place>>,
    parts: Vec<Part>,
}

pub(crate) fn draw() -> String {
    let arrows = arrows();
    let mut canvas =
        Canvas::new("Modules", "arrows are imports; those that follow from others are left out");
    let mut rows = Rows::new(&arrows);
    rows.arrange();
    for &Part { from: (row, index), to: (below, other), ends } in &rows.parts {
        let (from, to) = (&rows.rows[row][index], &rows.rows[below][other]);
        let (top, bottom) = (y_of(row) + BOX, y_of(below));
        let bottom = if ends { bottom - 1.0 } else { bottom };
        let middle = n(f64::midpoint(top, bottom));
        let curve = format!(
            "M{} {}C{} {middle} {} {middle} {} {}",
            n(from.x),
            n(top),
            n(from.x),
            n(to.x),
            n(to.x),
            n(bottom)
        );
        canvas.path(&curve, if ends { "e" } else { "l thick" });
    }
    for (row, places) in rows.rows.iter().enumerate() {
        for place in places {
            let y = y_of(row);
            if place.is_passage() {
                canvas.line((place.x, y), (place.x, y + BOX), "l thick");
            } else {
                let at = (place.x - place.half, y);
                canvas.labelled(at, (place.half * 2.0, BOX), colour(&place.name), &place.name);
            }
        }
    }
    let bottom = y_of(rows.rows.len()) + 4.0;
    let mut x = 20.0;
    for (class, words, width) in LEGEND {
        canvas.rect((x, bottom - 10.0), (12.0, 12.0), class);
        canvas.text(x + 18.0, bottom, "s", words);
        x += width;
    }
    canvas.style(".l.thick{stroke:var(--soft)}");
    let about =
        "Boxes are the top-level modules of the code, highest level first; arrows are imports.";
    canvas.finish(bottom + 18.0, "Modules of dockbridge and their imports", about)
}

/// The imports of each module, without imports that the module also has through another imported module.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let files = source::files("src");
    for file in files.iter().filter(|file| !file.is_test()) {
        let from = file.module();
        for path in file.paths() {
            if let Some(to) = module_of(&path).filter(|to| *to != from && !ROOTS.contains(to)) {
                all.entry(from.clone()).or_default().insert(to.to_owned());
            }
        }
    }
    all.retain(|from, _| !ROOTS.contains(&&**from));
    let beyond = |from: &str| -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&String> = all.get(from).into_iter().flatten().collect();
        while let Some(one) = next.pop() {
            next.extend(
                all.get(one).into_iter().flatten().filter(|to| reached.insert((*to).clone())),
            );
        }
        reached
    };
    all.iter()
        .map(|(from, to)| {
            let implied = beyond(from);
            (from.clone(), to.iter().filter(|to| !implied.contains(*to)).cloned().collect())
        })
        .collect()
}

impl Rows {
    /// Arranges the modules by level, and adds points where arrows cross a level. Arrows to the same module
    /// share these points.
    fn new(arrows: &BTreeMap<String, BTreeSet<String>>) -> Self {
        let mut levels: Vec<u8> = modules().map(|(_, level)| level).collect();
        levels.sort_unstable_by(|a, b| b.cmp(a));
        levels.dedup();
        let mut all = Self { rows: levels.iter().map(|_| Vec::new()).collect(), parts: Vec::new() };
        let row = |name: &str| levels.iter().position(|one| Some(*one) == level(name)).unwrap();
        for (name, _) in modules() {
            all.place(row(name), name, f64::from(u16::try_from(name.len()).unwrap()) * 3.9 + 9.0);
        }
        for (from, targets) in arrows {
            for to in targets {
                let (top, bottom) = (row(from), row(to));
                let mut last = all.place(top, from, 0.0);
                for between in top + 1..bottom {
                    let next = all.place(between, &format!("{PASSAGE}{to}"), 4.0);
                    all.join((last, (between, next.1)), false);
                    last = (between, next.1);
                }
                let end = all.place(bottom, to, 0.0);
                all.join((last, end), true);
            }
        }
        all
    }

    /// The place with the name `name` in a row. Creates the place if it does not exist.
    fn place(&mut self, row: usize, name: &str, half: f64) -> (usize, usize) {
        let found = self.rows[row].iter().position(|place| place.name == name);
        let index = found.unwrap_or_else(|| {
            let place = Place { name: name.to_owned(), half, x: 0.0, joined: Vec::new() };
            self.rows[row].push(place);
            self.rows[row].len() - 1
        });
        (row, index)
    }

    fn join(&mut self, (from, to): ((usize, usize), (usize, usize)), ends: bool) {
        let part = Part { from, to, ends };
        if !self.parts.contains(&part) {
            self.parts.push(part);
            self.rows[from.0][from.1].joined.push(to);
            self.rows[to.0][to.1].joined.push(from);
        }
    }

    /// Moves each place towards its connected places, and away from its neighbours.
    fn arrange(&mut self) {
        for places in &mut self.rows {
            spread(places);
        }
        for round in 0..60 {
            let down = round % 2 == 0;
            for step in 0..self.rows.len() {
                let row = if down { step } else { self.rows.len() - 1 - step };
                let wishes: Vec<f64> =
                    self.rows[row].iter().map(|place| self.wish(place)).collect();
                for (place, wish) in self.rows[row].iter_mut().zip(wishes) {
                    place.x = wish;
                }
                self.sort(row);
                spread(&mut self.rows[row]);
            }
        }
    }

    fn wish(&self, place: &Place) -> f64 {
        let count = place.joined.len();
        if count == 0 {
            return WIDTH / 2.0;
        }
        let sum: f64 = place.joined.iter().map(|&(row, index)| self.rows[row][index].x).sum();
        sum / f64::from(u16::try_from(count).unwrap())
    }

    /// Sorts the places of a row by their wanted positions, and updates the indexes in the connections to these places.
    fn sort(&mut self, row: usize) {
        let mut order: Vec<usize> = (0..self.rows[row].len()).collect();
        order.sort_by(|&a, &b| self.rows[row][a].x.total_cmp(&self.rows[row][b].x));
        let new_index = |old: usize| order.iter().position(|one| *one == old).unwrap();
        let renamed = |at: (usize, usize)| if at.0 == row { (row, new_index(at.1)) } else { at };
        for place in self.rows.iter_mut().flatten() {
            place.joined.iter_mut().for_each(|at| *at = renamed(*at));
        }
        for part in &mut self.parts {
            (part.from, part.to) = (renamed(part.from), renamed(part.to));
        }
        let mut old: Vec<Option<Place>> = self.rows[row].drain(..).map(Some).collect();
        self.rows[row] = order.iter().map(|&index| old[index].take().unwrap()).collect();
    }
}

impl Place {
    fn is_passage(&self) -> bool {
        self.name.starts_with(PASSAGE)
    }
}

/// Moves the places of a row so that they do not overlap and are inside the picture, each as near to its wanted
/// position as possible. Neighbours that would overlap move together, to the middle of their wanted positions.
fn spread(places: &mut [Place]) {
    let mut offsets = Vec::new();
    let mut right = -GAP;
    for place in places.iter() {
        offsets.push(right + GAP + place.half);
        right += GAP + 2.0 * place.half;
    }
    let mut groups: Vec<(f64, f64)> = Vec::new();
    for (place, offset) in places.iter().zip(&offsets) {
        let mut group = (place.x - offset, 1.0);
        while let Some(before) = groups.pop_if(|before| before.0 > group.0) {
            let count = before.1 + group.1;
            group = ((before.0 * before.1 + group.0 * group.1) / count, count);
        }
        groups.push(group);
    }
    let (least, most) = (MARGIN, (WIDTH - MARGIN - right).max(MARGIN));
    let starts = groups.iter().flat_map(|group| {
        let members = (0..).take_while(move |member| f64::from(*member) < group.1);
        members.map(|_| group.0.clamp(least, most))
    });
    for ((place, offset), start) in places.iter_mut().zip(offsets).zip(starts) {
        place.x = start + offset;
    }
}

fn modules() -> impl Iterator<Item = (&'static str, u8)> {
    LEVELS.into_iter().filter(|(name, _)| !ROOTS.contains(name))
}

fn colour(name: &str) -> &'static str {
    match level(name).unwrap_or_default() {
        8.. => "a",
        4.. => "b",
        2.. => "c",
        _ => "d",
    }
}

fn y_of(row: usize) -> f64 {
    72.0 + f64::from(u16::try_from(row).unwrap()) * (BOX + 34.0)
}

/// Modules that are not in the picture, because they only declare or start the other modules.
const ROOTS: [&str; 3] = ["main", "lib", "dockbridge"];
const PASSAGE: char = '>';
const BOX: f64 = 26.0;
const GAP: f64 = 11.0;
const MARGIN: f64 = 20.0;
const LEGEND: [(&str, &str, f64); 4] = [
    ("a", "serves", 72.0),
    ("b", "pods, images, logs", 150.0),
    ("c", "Docker, plugins, files", 166.0),
    ("d", "base", 60.0),
];
