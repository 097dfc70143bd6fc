//! Curves as pictures: with dots for a terminal, with lines for a browser.

use std::fmt::Write;

use super::{
    curve::Curve,
    verdict::{Sample, Verdict},
};

/// The curve in Braille: each character has two columns of four dots. A column of dots covers a time and
/// reaches from the smallest to the largest value in that time.
pub(crate) fn dots(curve: &Curve, width: usize, height: usize) -> Vec<String> {
    let (low, high) = curve.frame();
    let top = (height * 4 - 1) as f64;
    let level = |value: f64| ((value - low) / (high - low) * top).round() as usize;
    let mut cells = vec![vec![0_u8; width]; height];
    for (column, span) in columns(&curve.samples, width * 2).into_iter().enumerate() {
        let Some((least, greatest)) = span else { continue };
        for level in level(least)..=level(greatest) {
            cells[height - 1 - level / 4][column / 2] |= DOTS[column % 2][level % 4];
        }
    }
    let text = |row: Vec<u8>| {
        row.into_iter().map(|dots| char::from_u32(BRAILLE + u32::from(dots)).unwrap())
    };
    cells.into_iter().map(|row| text(row).collect()).collect()
}

/// The smallest and the largest value in each column of a picture. Between two samples, the curve is a straight line.
fn columns(samples: &[Sample], width: usize) -> Vec<Option<(f64, f64)>> {
    let last = samples.last().map_or(1.0, |sample| sample.0).max(1.0);
    let mut columns: Vec<Option<(f64, f64)>> = vec![None; width];
    for pair in samples.windows(2) {
        let [(from, before), (to, after)] = [pair[0], pair[1]];
        for step in 0..=STEPS {
            let part = f64::from(step) / f64::from(STEPS);
            let (at, value) = (from + (to - from) * part, before + (after - before) * part);
            let place = ((at / last * width as f64) as usize).min(width - 1);
            let (least, greatest) = columns[place].unwrap_or((value, value));
            columns[place] = Some((least.min(value), greatest.max(value)));
        }
    }
    columns
}

/// Draws all curves, one below the other. The warm-up is shaded. Bars show the median of each third of the
/// run after the warm-up.
pub(crate) fn svg(title: &str, curves: &[Curve]) -> String {
    let height = HEAD + curves.len() * PANEL;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{title}</text>\n"
    );
    for (place, curve) in curves.iter().enumerate() {
        panel(&mut svg, curve, (HEAD + place * PANEL) as f64).unwrap_or_default();
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(svg: &mut String, curve: &Curve, top: f64) -> std::fmt::Result {
    let (low, high) = curve.frame();
    let last = curve.samples.last().map_or(1.0, |sample| sample.0).max(1.0);
    let across = |at: f64| LEFT as f64 + at / last * (WIDTH - LEFT - RIGHT) as f64;
    let down = |value: f64| top + 22.0 + (high - value) / (high - low) * (PANEL - 46) as f64;
    let (floor, ceiling) = (down(low), down(high));
    let warm = across(curve.judgement.thirds[0].0);
    let (left, right) = (across(0.0), across(last));
    let colour = if curve.judgement.verdict == Verdict::Growing { "#c22" } else { "#27a" };
    writeln!(
        svg,
        "<text x=\"{left}\" y=\"{}\">{}: {}</text>",
        top + 14.0,
        curve.name,
        curve.says()
    )?;
    writeln!(
        svg,
        "<rect x=\"{left}\" y=\"{ceiling}\" width=\"{:.1}\" height=\"{}\" fill=\"#eee\"/>",
        warm - left,
        floor - ceiling
    )?;
    for (value, line) in [(high, ceiling), (low, floor)] {
        writeln!(svg, "<path d=\"M{left} {line}H{right}\" stroke=\"#ccc\"/>")?;
        writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{value:.1}</text>",
            left - 6.0,
            line + 4.0
        )?;
    }
    let points =
        curve.samples.iter().map(|(at, value)| format!("{:.1},{:.1}", across(*at), down(*value)));
    let points: Vec<String> = points.collect();
    writeln!(svg, "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>", points.join(" "))?;
    let ends = curve.judgement.thirds.iter().skip(1).map(|third| third.0).chain([last]);
    for ((begin, median), end) in curve.judgement.thirds.iter().zip(ends) {
        let (x, y) = (across(*begin), down(*median));
        writeln!(
            svg,
            "<path d=\"M{x:.1} {y:.1}H{:.1}\" stroke=\"#000\" stroke-width=\"2\"/>",
            across(end)
        )?;
    }
    let minutes = last / 60.0;
    writeln!(
        svg,
        "<text x=\"{right}\" y=\"{}\" text-anchor=\"end\">{minutes:.1} min</text>",
        floor + 16.0
    )
}

/// The Braille character without dots. In the other Braille characters, each dot is one bit that is added to
/// this number.
const BRAILLE: u32 = 0x2800;
/// The bits of the left and the right dots of a Braille character, from the bottom.
const DOTS: [[u8; 4]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];
/// The number of steps into which the line between two samples is divided.
const STEPS: u32 = 16;
const WIDTH: usize = 900;
const LEFT: usize = 60;
const RIGHT: usize = 20;
const HEAD: usize = 40;
const PANEL: usize = 130;
