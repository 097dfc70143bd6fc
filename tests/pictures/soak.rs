//! Draws the memory, open files, threads and tasks of dockbridge while pods are created and removed for an hour
//! (`make soak`).

use super::{
    canvas::Canvas,
    data::{Recording, Table},
    panel::{Panel, described, draw_all},
};

pub(crate) fn draw() -> String {
    let recording = Recording::read("soak");
    let samples = Table::read(&recording.lines, '\t');
    let mut canvas = Canvas::new(
        "An hour of pods that come and go",
        "20 a minute beside 5 that stay, with every stream open",
    );
    let minutes = samples.column("seconds").last().copied().unwrap_or_default() / 60.0;
    let one =
        |title, unit, name| Panel { title, unit, curves: vec![("ca", "", samples.column(name))] };
    let panels = [
        one("memory", "MB", "resident memory, MB"),
        one("open files", "", "descriptors"),
        one("threads", "", "threads"),
        one("tasks", "", "tasks"),
    ];
    let bottom = draw_all(&mut canvas, &panels, minutes);
    canvas.text(20.0, bottom + 2.0, "s", &recording.source());
    canvas.finish(
        bottom + 18.0,
        "Memory, open files, threads and tasks of dockbridge over an hour",
        &described(&panels),
    )
}
