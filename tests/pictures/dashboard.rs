//! The picture `dashboard.svg`: metrics while twelve pods are created and removed, from recorded scrapes.

use super::{
    canvas::Canvas,
    data::{Recording, Table},
    panel::{Panel, described, draw_all},
};

pub(crate) fn draw() -> String {
    let recording = Recording::read("metrics");
    let scrapes = Table::read(&recording.lines, ' ');
    let mut canvas =
        Canvas::new("Twelve pods come and go", "each of them writes some 2,000 lines a second");
    let minutes = scrapes.column("seconds").last().copied().unwrap_or_default() / 60.0;
    let panels = panels(&scrapes);
    let bottom = draw_all(&mut canvas, &panels, minutes);
    canvas.text(20.0, bottom + 2.0, "s", &recording.source());
    canvas.finish(
        bottom + 18.0,
        "Metrics of dockbridge while twelve pods come and go",
        &described(&panels),
    )
}

fn panels(scrapes: &Table) -> Vec<Panel> {
    let one = |title, unit, values| Panel { title, unit, curves: vec![("ca", "", values)] };
    let scaled = |values: Vec<f64>, by: f64| values.iter().map(|value| value * by).collect();
    vec![
        Panel {
            title: "running",
            unit: "",
            curves: vec![
                ("ca wide", "pods", scrapes.column("pods")),
                ("cb", "containers", scrapes.column("containers")),
            ],
        },
        one("CRI calls", "a second", scrapes.rate("calls", "seconds")),
        one("time of a CRI call", "ms", scaled(scrapes.rate("call_seconds", "calls"), 1000.0)),
        one("Docker requests", "a second", scrapes.rate("engine_calls", "seconds")),
        one("container logs", "MB/s", scaled(scrapes.rate("log_bytes", "seconds"), 1e-6)),
        one("memory", "MB", scaled(scrapes.column("resident_bytes"), 1e-6)),
        one("CPU", "% of a core", scaled(scrapes.rate("cpu_seconds", "seconds"), 100.0)),
        one(
            "time of a Docker request",
            "ms",
            scaled(scrapes.rate("engine_seconds", "engine_calls"), 1000.0),
        ),
    ]
}
