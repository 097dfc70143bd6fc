//! The states of a container's log, as in `src/logs`.

use super::canvas::{Canvas, n};

/// A state of a log in the picture: the box, the colour, the name, and a text that describes the state.
struct State {
    at: (f64, f64),
    class: &'static str,
    name: &'static str,
    does: [&'static str; 2],
}

/// An arrow to another state.
struct Arrow {
    /// The corners of the arrow's line.
    bends: &'static [(f64, f64)],
    words: [&'static str; 2],
    /// The position of the arrow's text.
    at: (f64, f64),
}

pub(crate) fn draw() -> String {
    let mut canvas = Canvas::new(
        "A container's log",
        "from Docker's json files to the CRI file that kubelet rotates",
    );
    for Arrow { bends, words, at } in ARROWS {
        let points: Vec<String> =
            bends.iter().map(|(x, y)| format!("{} {}", n(*x), n(*y))).collect();
        canvas.path(&format!("M{}", points.join("L")), "e");
        for (line, word) in words.iter().enumerate() {
            let below = if line == 0 { 0.0 } else { 15.0 };
            canvas.text(at.0, at.1 + below, "s", word);
        }
    }
    for state in &STATES {
        canvas.rect(state.at, SIZE, state.class);
        let middle = state.at.0 + SIZE.0 / 2.0;
        canvas.text(middle, state.at.1 + 20.0, "t k mid", state.name);
        for (line, words) in state.does.iter().enumerate() {
            let down = if line == 0 { 38.0 } else { 53.0 };
            canvas.text(middle, state.at.1 + down, "s mid", words);
        }
    }
    let about = "A log is opened at the start of its container and followed while it runs. A rotation opens a new \
                 file, an error is retried. When the container has ended the rest is read; then its end is shown.";
    canvas.finish(524.0, "The states of a container's log", about)
}

const SIZE: (f64, f64) = (160.0, 64.0);
const LEFT: f64 = 20.0;
const RIGHT: f64 = 300.0;

const STATES: [State; 7] = [
    State {
        at: (LEFT, 76.0),
        class: "d",
        name: "opening",
        does: ["the CRI file is made,", "a saved position read"],
    },
    State {
        at: (LEFT, 188.0),
        class: "a",
        name: "following",
        does: ["woken by inotify, a", "busy one each 10 ms"],
    },
    State {
        at: (RIGHT, 132.0),
        class: "a",
        name: "rotated",
        does: ["a new file is opened", "at the same path"],
    },
    State {
        at: (RIGHT, 244.0),
        class: "r",
        name: "cannot write",
        does: ["again after 0.1 s,", "later every 5 s"],
    },
    State {
        at: (LEFT, 314.0),
        class: "b",
        name: "finishing",
        does: ["what is left is read;", "end not shown yet"],
    },
    State {
        at: (RIGHT, 370.0),
        class: "c",
        name: "late",
        does: ["shown as ended,", "the rest follows"],
    },
    State {
        at: (LEFT, 440.0),
        class: "b",
        name: "complete",
        does: ["shown as ended, with", "its last line written"],
    },
];

const ARROWS: [Arrow; 9] = [
    Arrow {
        bends: &[(MIDDLE, 140.0), (MIDDLE, 187.0)],
        words: ["the container", "starts"],
        at: (109.0, 160.0),
    },
    Arrow {
        bends: &[(180.0, 208.0), (226.0, 208.0), (226.0, 150.0), (299.0, 150.0)],
        words: ["rotation", ""],
        at: (231.0, 144.0),
    },
    Arrow {
        bends: &[(300.0, 178.0), (270.0, 178.0), (270.0, 220.0), (181.0, 220.0)],
        words: ["", ""],
        at: (0.0, 0.0),
    },
    Arrow {
        bends: &[(180.0, 232.0), (270.0, 232.0), (270.0, 262.0), (299.0, 262.0)],
        words: ["", ""],
        at: (0.0, 0.0),
    },
    Arrow {
        bends: &[(300.0, 290.0), (240.0, 290.0), (240.0, 244.0), (181.0, 244.0)],
        words: ["", ""],
        at: (0.0, 0.0),
    },
    Arrow {
        bends: &[(MIDDLE, 252.0), (MIDDLE, 313.0)],
        words: ["the container", "ends"],
        at: (109.0, 278.0),
    },
    Arrow {
        bends: &[(180.0, 346.0), (250.0, 346.0), (250.0, 388.0), (299.0, 388.0)],
        words: ["10 s, or 2 s", "without progress"],
        at: (256.0, 345.0),
    },
    Arrow {
        bends: &[(MIDDLE, 378.0), (MIDDLE, 439.0)],
        words: ["all is read", ""],
        at: (109.0, 412.0),
    },
    Arrow {
        bends: &[(380.0, 434.0), (380.0, 472.0), (181.0, 472.0)],
        words: ["all is read", ""],
        at: (290.0, 466.0),
    },
];

const MIDDLE: f64 = 100.0;
