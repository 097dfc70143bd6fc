//! A terminal session as a still picture: everything is visible at once.

use super::{
    canvas::{Canvas, n},
    data::Recording,
};

pub(crate) fn draw() -> String {
    let recording = Recording::read("session");
    let lines = lines(&recording.lines);
    let mut canvas = Canvas::new("A pod with crictl and docker", &recording.source());
    let height = small(lines.len()) * LINE + 28.0;
    canvas.rect((12.0, 68.0), (456.0, height), "d");
    canvas.style(STYLE);
    canvas.raw(&format!(
        "<clipPath id=\"screen\"><rect x=\"13\" y=\"69\" width=\"454\" height=\"{}\"/></clipPath>\n\
         <g clip-path=\"url(#screen)\">",
        n(height - 2.0)
    ));
    for (place, line) in lines.iter().enumerate() {
        let class = if line.starts_with('$') { "m k" } else { "m out" };
        canvas.text(22.0, 68.0 + 24.0 + small(place) * LINE, class, line);
    }
    canvas.raw("</g>");
    let commands: Vec<&str> =
        lines.iter().filter(|line| line.starts_with('$')).map(String::as_str).collect();
    canvas.finish(68.0 + height + 14.0, "A terminal session", &commands.join("; "))
}

/// The recorded lines of a terminal session without their times, wrapped as in a terminal, with long ids shortened.
fn lines(recorded: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for line in recorded {
        let (_, text) = line.split_once(' ').unwrap();
        let words: Vec<String> = text.trim_start_matches("> ").split(' ').map(shortened).collect();
        let letters: Vec<char> = words.join(" ").chars().collect();
        lines.extend(letters.chunks(COLUMNS).map(|row| row.iter().collect()));
    }
    lines
}

fn shortened(word: &str) -> String {
    let is_id = word.len() == 64 && word.chars().all(|c| c.is_ascii_hexdigit());
    if is_id { format!("{}…", &word[..13]) } else { word.to_owned() }
}

fn small(value: usize) -> f64 {
    f64::from(u16::try_from(value).unwrap())
}

const STYLE: &str = ".m{font-size:13px}.out{fill:var(--soft)}";
const COLUMNS: usize = 56;
const LINE: f64 = 19.0;
