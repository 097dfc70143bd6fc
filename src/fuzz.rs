//! The targets of `make fuzz`: decoders of bytes from outside. A test runs each target with the committed
//! inputs (`tests/fuzz/corpus`).
//!
//! The function of a target is in the `fuzz.rs` of its module. A target's function calls a decoder or several
//! decoders, checks what must be true for any bytes, and fails by panicking. Only tests and the feature `fuzz` compile
//! the functions of targets.

use crate::{
    cdi, checkpoint, config, container, engine, host, image, logs, model, network, nri,
    oci_runtime, rpc, stats, streaming, telemetry, translate,
};

/// A target: a decoder, or several decoders for the same bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The target's name on the command line, which is also the name of the directory of its inputs.
    pub name: &'static str,
    pub read: fn(&[u8]),
}

pub const TARGETS: [Target; 31] = [
    target("accounts", model::fuzz::accounts),
    target("authorities", rpc::fuzz::authorities),
    target("cdi", cdi::fuzz::specification),
    target("cgroup", stats::fuzz::cgroup),
    target("checkpoint", checkpoint::fuzz::stored),
    target("cni-cache", network::cni::fuzz::cache),
    target("cni-config", network::cni::fuzz::configuration),
    target("cni-result", network::cni::fuzz::result),
    target("config", config::fuzz::settings),
    target("credentials", image::fuzz::credentials),
    target("cri-requests", translate::fuzz::requests),
    target("demux", engine::fuzz::demux),
    target("dump-archive", oci_runtime::fuzz::archive),
    target("dump-images", oci_runtime::fuzz::images),
    target("engine-answers", engine::fuzz::answers),
    target("engine-inspect", translate::fuzz::inspect),
    target("engine-lists", translate::fuzz::lists),
    target("engine-stream", engine::fuzz::messages),
    target("http-upgrade", streaming::fuzz::upgrade),
    target("kernel", host::fuzz::tables),
    target("limits", container::limits::fuzz::shown_limits),
    target("log-json", logs::fuzz::json),
    target("log-ends", logs::fuzz::ends),
    target("nri", nri::fuzz::frames_of_plugins),
    target("oci-edits", oci_runtime::fuzz::edited),
    target("profile", translate::fuzz::profile),
    target("reference", model::fuzz::texts_of_names),
    target("spdy", streaming::spdy::fuzz::frames),
    target("spdy-peer", streaming::spdy::fuzz::peer),
    target("trace-parent", telemetry::fuzz::parent),
    target("websocket", streaming::fuzz::websocket),
];

const fn target(name: &'static str, read: fn(&[u8])) -> Target {
    Target { name, read }
}

#[cfg(test)]
mod tests;
