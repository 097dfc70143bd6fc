//! A terminal session that types itself. Without animation all of it is shown.

use std::fmt::Write as _;

use super::{
    canvas::{Canvas, n},
    data::Recording,
};

/// One line of the screen, with the second at which it appears.
struct Line {
    at: f64,
    text: String,
    /// How long it takes to type it; none for output.
    typed: Option<f64>,
}

pub(crate) fn draw() -> String {
    let recording = Recording::read("session");
    let lines = lines(&recording.lines);
    let length = lines.last().map_or(0.0, |line| line.at) + REST;
    let mut canvas = Canvas::new("A pod with crictl and docker", &recording.source());
    let height = small(lines.len()) * LINE + 28.0;
    canvas.rect((12.0, 68.0), (456.0, height), "d");
    canvas.style(STYLE);
    canvas.raw(&format!(
        "<clipPath id=\"screen\"><rect x=\"13\" y=\"69\" width=\"454\" height=\"{}\"/></clipPath>",
        n(height - 2.0)
    ));
    for (place, line) in lines.iter().enumerate() {
        let y = 68.0 + 24.0 + small(place) * LINE;
        let class = if line.typed.is_some() { "m k" } else { "m out" };
        canvas.raw(&format!("<g class=\"line\" clip-path=\"url(#screen)\" style=\"animation:{} {length:.1}s step-end infinite\">", name(place)));
        canvas.text(22.0, y, class, &line.text);
        let mut rules = format!(
            "@keyframes {}{{0%{{opacity:0}}{}{{opacity:1}}}}",
            name(place),
            part(line.at, length)
        );
        if let Some(typed) = line.typed {
            let letters = line.text.chars().count();
            canvas.raw(&format!(
                "<rect x=\"22\" y=\"{}\" width=\"440\" height=\"{}\" class=\"cover\" style=\"animation:{}t {length:.1}s infinite steps({letters})\"/>",
                n(y - 12.0), n(LINE - 1.0), name(place)
            ));
            let _ = write!(
                rules,
                "@keyframes {}t{{0%,{}{{transform:none}}{},100%{{transform:translateX({}px)}}}}",
                name(place),
                part(line.at, length),
                part(line.at + typed, length),
                n(small(letters) * LETTER)
            );
        }
        canvas.raw("</g>");
        canvas.style(&rules);
    }
    let about: Vec<&str> =
        lines.iter().filter(|line| line.typed.is_some()).map(|line| line.text.as_str()).collect();
    canvas.finish(68.0 + height + 14.0, "A terminal session", &about.join("; "))
}

/// Commands are typed, then take as long as they took; output is wrapped as a terminal does.
fn lines(recorded: &[String]) -> Vec<Line> {
    let (mut lines, mut now, mut begun) = (Vec::<Line>::new(), 0.5, 0.0);
    for line in recorded {
        let (stamp, text) = line.split_once(' ').unwrap();
        let stamp: f64 = stamp.parse().unwrap();
        let command = text.starts_with('$');
        if command {
            now += PAUSE;
            let typed = small(text.len()) * KEY;
            lines.push(Line { at: now, text: text.to_owned(), typed: Some(typed) });
            now += typed;
            begun = stamp;
            continue;
        }
        now += (stamp - begun).max(0.0);
        begun = stamp;
        let letters: Vec<char> = text.trim_start_matches("> ").chars().collect();
        for row in letters.chunks(COLUMNS) {
            lines.push(Line { at: now, text: row.iter().collect(), typed: None });
        }
    }
    lines
}

fn name(place: usize) -> String {
    format!("s{place}")
}

/// A moment as a share of the whole.
fn part(at: f64, length: f64) -> String {
    format!("{:.2}%", at / length * 100.0)
}

fn small(value: usize) -> f64 {
    f64::from(u16::try_from(value).unwrap())
}

const STYLE: &str = ".m{font-size:13px}.out{fill:var(--soft)}.cover{fill:var(--d);transform:translateX(480px)}\
                     @media(prefers-reduced-motion:reduce){.line,.cover{animation:none!important}}";
const COLUMNS: usize = 56;
const LINE: f64 = 19.0;
/// The width of a letter of 13 px.
const LETTER: f64 = 7.8;
/// Seconds for a key, between commands, and at the end.
const KEY: f64 = 0.035;
const PAUSE: f64 = 0.7;
const REST: f64 = 5.0;
