//! All pictures of the documents. Each picture is made only from the code or from recorded data, so drawing
//! it again gives the same file.

#[path = "bars.rs"]
mod bars;
#[path = "calls.rs"]
mod calls;
#[path = "canvas.rs"]
mod canvas;
#[path = "checkpoint.rs"]
mod checkpoint;
#[path = "dashboard.rs"]
mod dashboard;
#[path = "data.rs"]
mod data;
#[path = "log.rs"]
mod log;
#[path = "modules.rs"]
mod modules;
#[path = "panel.rs"]
mod panel;
#[path = "place.rs"]
mod place;
#[path = "pod.rs"]
mod pod;
#[path = "session.rs"]
mod session;
#[path = "soak.rs"]
mod soak;
#[path = "takeover.rs"]
mod takeover;

/// The file names of all pictures in `docs/pictures`, and their contents.
pub(crate) fn pictures() -> Vec<(&'static str, String)> {
    vec![
        ("place.svg", place::draw()),
        ("calls.svg", calls::draw()),
        ("modules.svg", modules::draw()),
        ("pod-start.svg", pod::start()),
        ("pod-stop.svg", pod::stop()),
        ("container-log.svg", log::draw()),
        ("bench.svg", bars::draw()),
        ("dashboard.svg", dashboard::draw()),
        ("session.svg", session::draw()),
        ("soak.svg", soak::draw()),
        ("takeover.svg", takeover::draw()),
        ("checkpoint.svg", checkpoint::draw()),
    ]
}
