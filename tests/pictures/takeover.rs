//! Draws the move from cri-dockerd to dockbridge: the server that is replaced, and the pods that stay.

use super::canvas::{Canvas, WIDTH};

pub(crate) fn draw() -> String {
    let mut canvas = Canvas::new(
        "The server changes, the pods stay",
        "a node before and after the move; only the coloured boxes matter",
    );
    let columns = [(20.0, "before", "c", "cri-dockerd"), (250.0, "after", "a", "dockbridge")];
    for (left, when, class, server) in columns {
        let middle = left + WIDE / 2.0;
        canvas.text(middle, 86.0, "s mid", when);
        for (place, name) in ["kubelet", server, "dockerd"].into_iter().enumerate() {
            let class = if place == 1 { class } else { "d" };
            canvas.labelled((left, ROWS[place]), (WIDE, TALL), class, name);
            canvas.line((middle, ROWS[place] + TALL), (middle, ROWS[place + 1] - 1.0), "e");
        }
    }
    canvas.rect((20.0, ROWS[3]), (WIDTH - 40.0, 62.0), "b");
    canvas.text(WIDTH / 2.0, ROWS[3] + 26.0, "k mid", "the same pods");
    canvas.text(
        WIDTH / 2.0,
        ROWS[3] + 46.0,
        "s mid",
        "no restart: processes, addresses and host ports stay",
    );
    let about = "kubelet asks cri-dockerd before the move and dockbridge after it. Both use the same dockerd. \
                 The pods keep running, with their processes, addresses and host ports.";
    canvas.finish(ROWS[3] + 80.0, "The move from cri-dockerd to dockbridge", about)
}

const WIDE: f64 = 210.0;
const TALL: f64 = 36.0;
/// The upper edges of the boxes of kubelet, the server, dockerd and the pods.
const ROWS: [f64; 4] = [98.0, 160.0, 222.0, 284.0];
