//! A pod's start and stop as sequence diagrams. The length of a bar of Docker or CNI is the time of the call,
//! but short bars have a minimum length.

use super::{
    canvas::{Canvas, ms},
    data::Recording,
};

/// One CRI call and its calls to other programs.
struct Call {
    method: String,
    took: f64,
    steps: Vec<Step>,
}

struct Step {
    /// The position of the called program's lifeline.
    whom: f64,
    /// Whether the call begins together with the call before it.
    beside: bool,
    what: String,
    took: f64,
}

pub(crate) fn start() -> String {
    draw("A pod starts", "pod up in", &["RunPodSandbox", "CreateContainer", "StartContainer"])
}

pub(crate) fn stop() -> String {
    let methods = ["StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"];
    draw("A pod stops", "pod gone in", &methods)
}

fn draw(headline: &str, sum: &str, methods: &[&str]) -> String {
    let recording = Recording::read("pod");
    let calls: Vec<Call> = calls(&recording.lines)
        .into_iter()
        .filter(|call| methods.contains(&&*call.method))
        .collect();
    let total: f64 = calls.iter().map(|call| call.took).sum();
    let own: f64 = calls.iter().map(Call::own).sum();
    let mut canvas = Canvas::new(
        headline,
        &format!("{sum} {}, of which dockbridge itself took {}", ms(total), ms(own)),
    );
    let end = calls.iter().fold(126.0, |y, call| call.draw(&mut canvas, y));
    let mut whole = Canvas::empty();
    for (x, width, class, name) in HEADS {
        whole.line((x, 100.0), (x, end - 6.0), "l");
        whole.labelled((x - width / 2.0, 72.0), (width, 28.0), class, name);
    }
    canvas.put_behind(&whole);
    canvas.style(".call{fill:var(--ink);font-weight:600;font-size:12px}");
    canvas.text(20.0, end + 18.0, "s", &recording.source());
    let about: Vec<String> =
        calls.iter().map(|call| format!("{} took {}", call.method, ms(call.took))).collect();
    canvas.finish(end + 34.0, headline, &format!("{}.", about.join(", ")))
}

fn calls(lines: &[String]) -> Vec<Call> {
    let (mut calls, mut steps) = (Vec::new(), Vec::new());
    for line in lines {
        let [kind, name, took] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        let (what, took) = (name.to_owned(), took.parse().unwrap());
        match kind {
            "call" => calls.push(Call { method: what, took, steps: std::mem::take(&mut steps) }),
            "docker" => steps.push(Step { whom: DOCKER, beside: false, what, took }),
            _ => steps.push(Step { whom: PLUGINS, beside: kind == "beside", what, took }),
        }
    }
    calls
}

impl Call {
    /// The time of the CRI call without its calls to other programs.
    fn own(&self) -> f64 {
        let mut others = 0.0;
        let mut last = 0.0;
        for step in &self.steps {
            let more = if step.beside { (step.took - last).max(0.0) } else { step.took };
            others += more;
            last = step.took;
        }
        (self.took - others).max(0.0)
    }

    fn draw(&self, canvas: &mut Canvas, top: f64) -> f64 {
        canvas.text(KUBELET + 5.0, top - 6.0, "s call", &self.method);
        canvas.line((KUBELET, top), (OURS - 6.0, top), "e");
        let (mut y, mut begun) = (top, top);
        for step in &self.steps {
            let at = if step.beside { begun + 10.0 } else { y + 24.0 };
            begun = at;
            let height = (step.took * SCALE).max(6.0);
            canvas.line((OURS + 6.0, at), (step.whom - 6.0, at), "e");
            let pause = self.method.contains("Sandbox") && step.whom < PLUGINS;
            let what = if pause { format!("{} pause", step.what) } else { step.what.clone() };
            let class = if step.whom < PLUGINS { "c" } else { "b" };
            let x = if step.beside { step.whom - 60.0 } else { OURS + 14.0 };
            canvas.text(x, at - 6.0, "t", &what);
            canvas.rect((step.whom - 5.0, at), (10.0, height), class);
            let (x, anchor) = if step.whom < PLUGINS {
                (step.whom + 11.0, "s")
            } else {
                (step.whom - 11.0, "s end")
            };
            canvas.text(x, at + (height / 2.0 + 4.5).max(15.0), anchor, &ms(step.took));
            y = y.max(at + height);
        }
        let end = y + 10.0;
        canvas.rect((OURS - 5.0, top), (10.0, end - top), "a");
        canvas.line((OURS - 6.0, end), (KUBELET + 1.0, end), "e dash");
        canvas.text(KUBELET + 8.0, end - 6.0, "s", &ms(self.took));
        end + 38.0
    }
}

const KUBELET: f64 = 52.0;
const OURS: f64 = 198.0;
const DOCKER: f64 = 332.0;
const PLUGINS: f64 = 432.0;
const HEADS: [(f64, f64, &str, &str); 4] = [
    (KUBELET, 64.0, "d", "kubelet"),
    (OURS, 90.0, "a", "dockbridge"),
    (DOCKER, 66.0, "c", "Docker"),
    (PLUGINS, 60.0, "b", "CNI"),
];
/// The number of drawing units for a millisecond.
const SCALE: f64 = 0.6;
