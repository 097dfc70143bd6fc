//! The known faults of engines and CNI plugins, which make calls of a test fail without a fault of dockbridge.
//!
//! If a call fails with one of these faults, the client of the end-to-end tests repeats the call once, provided that
//! the call is in `repeatable` of the fault. During `make test`, each repeat adds a line to the file that
//! `DOCKBRIDGE_REPEATS` names, and `make test` fails if the file has more than two lines.

use std::{env, fs::OpenOptions, io::Write as _};

/// A known fault of an engine or of a CNI plugin.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KnownFault {
    /// The prefix of the versions of the engines with the fault, or empty for a fault of a CNI plugin.
    release: &'static str,
    /// The engine's image store, if the fault occurs only with this store.
    store: Option<&'static str>,
    /// The versions in which the fault was seen.
    versions: &'static str,
    /// Parts of the fault's error text, which must all occur in this order.
    text: &'static [&'static str],
    /// The calls that may be repeated after this fault. StartContainer is not in the list if a container that met the
    /// fault can never start.
    repeatable: &'static [&'static str],
    /// The address of the upstream issue or pull request about the fault.
    reference: &'static str,
}

const KNOWN_FAULTS: &[KnownFault] = &[
    KnownFault {
        release: "",
        store: None,
        versions: "CNI plugins 1.1.1",
        // Two CNI plugins that run at the same time both see that a chain of iptables is missing, both try to create
        // the chain, and one of the plugins fails.
        text: &["network plugin ", ", ADD: ", "CHAIN_USER_ADD failed (File exists)"],
        repeatable: &["run_pod_sandbox"],
        reference: "https://github.com/containernetworking/plugins/issues/335",
    },
    KnownFault {
        release: "20.10.",
        store: None,
        versions: "Docker 20.10.24, containerd 1.6.20",
        text: &["failed to start shim: mkdir /", ": file exists"],
        repeatable: &["run_pod_sandbox"],
        reference: "https://github.com/moby/moby/issues/50040",
    },
    KnownFault {
        release: "26.1.",
        store: None,
        versions: "Docker 26.1.5, runc 1.1.15",
        text: &["waiting for init preliminary setup: read init-p: connection reset by peer"],
        repeatable: &["run_pod_sandbox", "start_container"],
        reference: "https://github.com/opencontainers/runc/issues/1914",
    },
    KnownFault {
        release: "28.5.",
        store: Some("containerd"),
        versions: "Docker 28.5.2 with the containerd image store",
        text: &["consistency error: data changed during operation, retry"],
        repeatable: &[
            "create_container",
            "image_status",
            "list_images",
            "pull_image",
            "remove_image",
            "run_pod_sandbox",
        ],
        // The engine repeats a lookup during which an image changes. After three repeats, it fails with this error.
        reference: "https://github.com/moby/moby/pull/46840",
    },
];

/// The known fault of this engine version and image store that matches an error text, if there is one.
pub(crate) fn of(version: &str, store: &str, message: &str) -> Option<&'static KnownFault> {
    let of_engine = |fault: &&KnownFault| {
        version.starts_with(fault.release) && fault.store.is_none_or(|its| its == store)
    };
    KNOWN_FAULTS.iter().filter(of_engine).find(|fault| fault.is_in(message))
}

/// Whether a call that failed with this text may be repeated. Records each repeat that it allows.
#[allow(dead_code, reason = "only the client of the end-to-end tests repeats calls")]
pub(crate) fn repeats(call: &str, message: &str) -> bool {
    let of_world = |fact| env::var(format!("DOCKBRIDGE_WORLD_{fact}")).unwrap_or_default();
    let fault = of(&of_world("VERSION"), &of_world("STORE"), message)
        .filter(|fault| fault.repeatable.contains(&call));
    fault.inspect(|fault| note(fault)).is_some()
}

/// Prints the fault, and appends it to the file that `DOCKBRIDGE_REPEATS` names, if the variable is set.
#[allow(dead_code, reason = "only the client of the end-to-end tests repeats calls")]
fn note(fault: &KnownFault) {
    let KnownFault { versions, text, reference, .. } = fault;
    let line = format!("{versions}: {} ({reference})", text.join("…"));
    println!("  repeated after a known fault: {line}");
    let Some(list) = env::var_os("DOCKBRIDGE_REPEATS") else { return };
    let list = OpenOptions::new().create(true).append(true).open(list);
    list.and_then(|mut list| writeln!(list, "{line}")).expect("the list of repeats");
}

impl KnownFault {
    fn is_in(&self, message: &str) -> bool {
        let find = |rest: &str, part: &str| Some(rest.split_once(part)?.1.to_owned());
        self.text.iter().try_fold(message.to_owned(), |rest, part| find(&rest, part)).is_some()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn faults_are_found_in_the_texts_of_their_engine_only() {
        let leftover =
            "start container a1: failed to start shim: mkdir /run/moby/a1: file exists: unknown";
        let init = "OCI runtime create failed: waiting for init preliminary setup: read init-p: \
                    connection reset by peer: unknown";
        let changed = "remove image x: consistency error: data changed during operation, retry";
        for (version, store, message) in [
            ("20.10.24+dfsg1", "overlay2", leftover),
            ("26.1.5+dfsg1", "overlay2", init),
            ("28.5.2+dfsg4", "containerd", changed),
        ] {
            let fault = super::of(version, store, message).expect(message);
            assert!(fault.versions.contains(&version[..5]), "{fault:?}");
            assert_eq!(super::of("28.5.2", "overlay2", message), None, "{message}");
        }
        let chain = "network plugin firewall, ADD: running [/usr/sbin/iptables -N CNI-ADMIN --wait]: \
                     exit status 4: CHAIN_USER_ADD failed (File exists): chain CNI-ADMIN (code 999)";
        assert_eq!(super::of("29.7.2", "", chain).map(|fault| fault.release), Some(""));
        for other in ["", "file exists", "failed to start shim: mkdir /x: no space left on device"]
        {
            assert_eq!(super::of("20.10.24", "", other), None, "{other}");
        }
        let turned = "x: file exists: failed to start shim: mkdir /";
        assert_eq!(super::of("20.10.24", "", turned), None);
    }

    #[test]
    fn every_fault_has_a_reference() {
        for fault in super::KNOWN_FAULTS {
            assert!(fault.reference.starts_with("https://"), "{fault:?}");
            assert!(!fault.text.is_empty() && !fault.repeatable.is_empty(), "{fault:?}");
        }
    }
}
