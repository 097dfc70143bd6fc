//! Draws the place of dockbridge on a node: the processes, and the sockets and files between them.

use super::canvas::Canvas;

pub(crate) fn draw() -> String {
    let mut canvas = Canvas::new(
        "Where dockbridge sits",
        "processes of one node, and how they reach each other",
    );
    canvas.labelled((20.0, 72.0), (120.0, 36.0), "d", "kubelet");
    canvas.labelled((150.0, 72.0), (120.0, 36.0), "d", "crictl");
    canvas.rect((20.0, 154.0), (250.0, 36.0), "a");
    canvas.text(145.0, 176.8, "t mid k", "dockbridge");
    canvas.labelled((330.0, 154.0), (130.0, 36.0), "d", "CNI plugins");
    for (place, name) in ["dockerd", "containerd", "runc"].into_iter().enumerate() {
        canvas.labelled((20.0, ROWS[place]), (250.0, 36.0), "d", name);
    }
    canvas.rect((20.0, 482.0), (440.0, 74.0), "b");
    canvas.text(34.0, 504.0, "k", "pod");
    canvas.labelled((34.0, 514.0), (110.0, 30.0), "page", "pause");
    canvas.labelled((154.0, 514.0), (110.0, 30.0), "page", "container");
    canvas.text(300.0, 534.0, "s", "network namespace");
    let arrows = [
        (108.0, 154.0, "CRI on /run/dockbridge/dockbridge.sock"),
        (190.0, ROWS[0], "Engine API on /var/run/docker.sock"),
        (ROWS[0] + 36.0, ROWS[1], "/run/containerd/containerd.sock"),
        (ROWS[1] + 36.0, ROWS[2], "through a shim"),
        (ROWS[2] + 36.0, 482.0, "starts the processes"),
    ];
    for (from, to, label) in arrows {
        canvas.line((145.0, from), (145.0, to - 1.0), "e");
        canvas.text(155.0, f64::midpoint(from, to) + 4.5, "s", label);
    }
    canvas.line((270.0, 172.0), (329.0, 172.0), "e");
    canvas.line((440.0, 190.0), (440.0, 481.0), "e");
    for (place, text) in ["/opt/cni/bin", "/etc/cni/net.d"].into_iter().enumerate() {
        canvas.text(432.0, [254.0, 272.0][place], "s end", text);
    }
    for (place, text) in ["connects", "the pod"].into_iter().enumerate() {
        canvas.text(432.0, [408.0, 426.0][place], "s end", text);
    }
    let about = "kubelet and crictl call dockbridge on its socket. dockbridge calls dockerd, which calls \
                 containerd, which starts runc. dockbridge runs the CNI plugins that connect the pod.";
    canvas.finish(574.0, "Where dockbridge sits on a node", about)
}

/// The upper edges of the boxes of dockerd, containerd and runc.
const ROWS: [f64; 3] = [236.0, 318.0, 400.0];
