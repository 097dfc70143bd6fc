//! Draws a container checkpoint: the container, which is frozen for a moment, the content of the archive, and the
//! container that starts from the archive.

use super::canvas::Canvas;

pub(crate) fn draw() -> String {
    let mut canvas = Canvas::new(
        "A checkpoint of a running container",
        "the container is frozen while it is saved, then continues",
    );
    timeline(&mut canvas, 78.0, "container");
    canvas.rect((130.0, 78.0), (120.0, 36.0), "b");
    canvas.text(190.0, 100.8, "t mid", "runs");
    canvas.rect((254.0, 78.0), (70.0, 36.0), "c");
    canvas.text(289.0, 100.8, "t mid", "frozen");
    canvas.rect((328.0, 78.0), (132.0, 36.0), "b");
    canvas.text(394.0, 100.8, "t mid", "continues");
    canvas.line((289.0, 114.0), (289.0, 155.0), "e");
    canvas.text(297.0, 139.0, "s", "saved by CRIU");
    timeline(&mut canvas, 156.0, "archive");
    canvas.rect((130.0, 156.0), (330.0, 92.0), "d");
    for (place, text) in
        ["memory and processes", "files that the container changed", "configuration, status, log"]
            .into_iter()
            .enumerate()
    {
        canvas.text(146.0, [180.0, 204.0, 228.0][place], "t", text);
    }
    canvas.text(444.0, 228.0, "s end", "mode 0600");
    canvas.line((289.0, 248.0), (289.0, 289.0), "e");
    canvas.text(297.0, 273.0, "s", "compared, then restored");
    timeline(&mut canvas, 290.0, "new pod");
    canvas.rect((289.0, 290.0), (171.0, 36.0), "a");
    canvas.text(374.5, 312.8, "t mid", "continues from there");
    canvas.text(130.0, 346.0, "s", "with its own name, address, log, rights and limits");
    let about = "A container runs, is frozen while CRIU saves it, and continues. The archive has its memory and \
                 processes, the files that it changed, and its configuration, status and log. A container of \
                 another pod can continue from the archive, with the name, address, log, rights and limits of that pod.";
    canvas.finish(364.0, "A checkpoint of a running container", about)
}

/// Draws the name of a row, at the left of the row's boxes.
fn timeline(canvas: &mut Canvas, top: f64, name: &str) {
    canvas.text(20.0, top + 22.8, "k", name);
}
