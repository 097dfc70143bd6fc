//! Tests which modules may use foreign crates and types, `unsafe`, and names that make a function impure.

use super::{hold, shipped, source::PathUse};

/// Restricted crates or types, the paths that name them, and the modules that may use them.
struct Foreign {
    what: &'static str,
    paths: &'static [&'static str],
    only: &'static [&'static str],
}

const FOREIGN: [Foreign; 12] = [
    Foreign {
        what: "CRI types",
        paths: &["crate::wire::cri"],
        // The module `check` is a client of dockbridge's CRI socket. The module `app` passes the gRPC services to the
        // listener.
        only: &[
            "wire::cri",
            "translate::parse",
            "translate::render",
            "translate::limits",
            "rpc",
            "check",
            "app",
        ],
    },
    Foreign {
        what: "NRI messages",
        paths: &["crate::wire::nri"],
        only: &["wire::nri", "translate", "nri"],
    },
    Foreign {
        what: "Docker bodies",
        paths: &["crate::wire::docker"],
        only: &[
            "wire::docker",
            "translate::plan",
            "translate::observe",
            "translate::limits",
            "engine",
        ],
    },
    Foreign { what: "the Docker client", paths: &["bollard"], only: &["wire::docker", "engine"] },
    Foreign {
        what: "gRPC",
        paths: &["tonic", "tonic_prost", "prost"],
        // `oci_runtime::restore` reads CRIU's files that are encoded with protobuf, like the messages of gRPC.
        only: &[
            "wire::cri",
            "wire::nri",
            "nri",
            "rpc",
            "check",
            "app",
            "telemetry::otlp",
            "oci_runtime::restore",
        ],
    },
    Foreign {
        what: "HTTP clients",
        paths: &["hyperlocal", "hyper_util::client", "hyper::client"],
        only: &["engine", "check", "admin"],
    },
    Foreign { what: "metrics", paths: &["prometheus_client"], only: &["telemetry"] },
    Foreign { what: "raw system calls", paths: &["nix", "libc"], only: &["host"] },
    Foreign {
        what: "other programs",
        paths: &["std::process::Command", "tokio::process", "std::os::unix::process::CommandExt"],
        // `dockbridge-runtime` replaces itself with the lower runtime, such as runc.
        only: &["host", "oci_runtime::execute"],
    },
    Foreign { what: "the environment", paths: &["std::env"], only: &["main"] },
    Foreign {
        what: "systemd's variables",
        paths: &["sd_notify"],
        only: &["telemetry::systemd", "host::inherited_socket"],
    },
    Foreign {
        what: "randomness",
        paths: &["rand"],
        only: &[
            "streaming",
            "sandbox",
            "container",
            "image",
            "image_files",
            "network",
            "store",
            "check",
            "app",
            "telemetry::trace",
        ],
    },
];

/// Modules whose functions depend only on their arguments. Callers of such functions pass the time, random
/// numbers and contents of files as values.
const PURE: [&str; 2] = ["model", "translate"];

/// Names whose use would make a function depend on more than its arguments, or have a side effect.
const IMPURE: [&str; 12] = [
    "std::time::SystemTime",
    "std::time::Instant",
    "std::fs",
    "std::env",
    "std::io",
    "std::net::TcpStream",
    "std::thread",
    "tokio",
    "rand",
    "nix",
    "tracing",
    "jiff::Timestamp::now",
];

#[test]
fn foreign_things_stay_where_they_belong() {
    let mut breaches = Vec::new();
    for file in shipped() {
        let module = file.module_path().join("::");
        for path in file.paths() {
            for foreign in &FOREIGN {
                let named = foreign.paths.iter().any(|named| begins(&path, named));
                if named && !foreign.only.iter().any(|only| within(&module, only)) {
                    let text = path.segments.join("::");
                    breaches.push(format!("{}:{} names {text}", file.path, path.line));
                    breaches.push(format!(
                        "    {} belong in: {}",
                        foreign.what,
                        foreign.only.join(", ")
                    ));
                }
            }
        }
    }
    hold("foreign things out of place", &breaches);
}

#[test]
fn decisions_depend_on_their_arguments_only() {
    let mut breaches = Vec::new();
    for file in shipped().iter().filter(|file| PURE.contains(&file.module().as_str())) {
        for path in file.paths() {
            let clock = path.segments.ends_with(&["SystemTime".to_owned(), "now".to_owned()])
                || path.segments.ends_with(&["Timestamp".to_owned(), "now".to_owned()]);
            if clock || IMPURE.iter().any(|impure| begins(&path, impure)) {
                breaches.push(format!(
                    "{}:{} names {}",
                    file.path,
                    path.line,
                    path.segments.join("::")
                ));
            }
        }
    }
    hold("impure code in a pure module", &breaches);
}

#[test]
fn only_host_is_unsafe() {
    let mut breaches = Vec::new();
    for file in shipped().iter().filter(|file| file.module() != "host") {
        for (_, line) in file.flat().iter().filter(|(token, _)| token == "unsafe") {
            breaches.push(format!("{}:{line}", file.path));
        }
    }
    hold("unsafe outside host", &breaches);
}

fn begins(path: &PathUse, prefix: &str) -> bool {
    let mut segments = path.segments.iter();
    prefix.split("::").all(|part| segments.next().is_some_and(|segment| segment == part))
}

fn within(path: &str, module: &str) -> bool {
    path == module || path.strip_prefix(module).is_some_and(|rest| rest.starts_with("::"))
}
