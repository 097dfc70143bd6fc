//! Draws the path of a CRI call through the modules of dockbridge, and the path of Docker's events into the store.

use super::canvas::Canvas;

pub(crate) fn draw() -> String {
    let mut canvas = Canvas::new(
        "What a call does, and what answers it",
        "a list or a status comes from the store and never waits for Docker",
    );
    canvas.labelled((20.0, 72.0), (440.0, 36.0), "d", "kubelet");
    canvas.labelled((20.0, 150.0), (440.0, 36.0), "a", "rpc");
    canvas.labelled((20.0, 228.0), (230.0, 36.0), "a", "sandbox, container, image");
    canvas.labelled((330.0, 228.0), (130.0, 36.0), "b", "store");
    canvas.labelled((20.0, 306.0), (84.0, 36.0), "a", "network");
    canvas.labelled((112.0, 306.0), (96.0, 36.0), "a", "checkpoint");
    canvas.labelled((20.0, 384.0), (440.0, 36.0), "a", "engine");
    canvas.labelled((20.0, 462.0), (440.0, 36.0), "d", "dockerd");
    for Arrow { x, from, to, words } in ARROWS {
        canvas.line((x, from), (x, to), "e");
        let (beside, class) = if from < to { (x + 8.0, "s") } else { (x - 8.0, "s end") };
        canvas.text(beside, f64::midpoint(from, to) + 4.5, class, words);
    }
    let about = "A call goes from kubelet through rpc, which parses it, to sandbox, container or image. They run CNI \
                 plugins, write checkpoints and plan the requests of engine to dockerd. Answers and events of dockerd \
                 are observed and put into the store, from which rpc renders lists and statuses.";
    canvas.finish(516.0, "The way of a call through dockbridge", about)
}

/// A vertical arrow in the picture with words next to it.
struct Arrow {
    x: f64,
    from: f64,
    to: f64,
    words: &'static str,
}

const ARROWS: [Arrow; 9] = [
    Arrow { x: 62.0, from: 108.0, to: 149.0, words: "a call" },
    Arrow { x: 62.0, from: 186.0, to: 227.0, words: "parse" },
    Arrow { x: 62.0, from: 264.0, to: 305.0, words: "CNI" },
    Arrow { x: 160.0, from: 264.0, to: 305.0, words: "files" },
    Arrow { x: 229.0, from: 264.0, to: 383.0, words: "plan" },
    Arrow { x: 62.0, from: 420.0, to: 461.0, words: "Engine API" },
    Arrow { x: 395.0, from: 462.0, to: 421.0, words: "answers, events" },
    Arrow { x: 395.0, from: 384.0, to: 265.0, words: "observe" },
    Arrow { x: 395.0, from: 228.0, to: 187.0, words: "render" },
];
