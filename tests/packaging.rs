//! Tests that packaged files match the program: unit files, command lines that were written for cri-dockerd,
//! the example configuration, manual pages, alert rules and the dashboard.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "../packaging/documents.rs"]
mod documents;

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    path::PathBuf,
    process::Command as Shell,
};

use dockbridge::{
    cli::command_line::{Command, Invocation},
    config::{
        key::Key,
        resolve::{Resolved, resolve},
    },
    model::listen::Listen,
};
use serde::Deserialize;

#[test]
fn the_example_configuration_has_the_defaults_as_comments() {
    let text = documents::example_configuration();
    assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "{text}");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dockbridge.toml");
    let values: String = text
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .filter(|line| !line.starts_with(' '))
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(&path, values).unwrap();
    let from_file = resolve(Vec::new(), Some(path), &|_| None).unwrap();
    let built_in = resolve(Vec::new(), None, &|_| None).unwrap();
    assert_eq!(from_file.settings, built_in.settings);
    assert!(
        from_file.values.iter().all(|value| value.source.to_string().starts_with("file ")),
        "a setting is missing"
    );
}

/// Up to systemd 252, `systemctl is-enabled` of several units fails if one of them does not exist.
#[test]
fn the_service_does_not_start_while_a_cri_dockerd_is_enabled() {
    let unit = fs::read_to_string("packaging/systemd/dockbridge.service").unwrap();
    let (_, rest) = unit.split_once("\nExecCondition=/bin/sh -c '").unwrap();
    let (condition, _) = rest.split_once("'\n").unwrap();
    for (enabled, starts) in
        [("none", true), ("cri-docker.service", false), ("cri-dockerd.service", false)]
    {
        let systemctl = format!(
            "systemctl() {{ [ $2 = is-enabled ] || return 3; shift 2; for unit; do [ $unit = {enabled} ] || return 1; done; }}"
        );
        let shell =
            Shell::new("sh").args(["-c", &format!("{systemctl}\n{condition}")]).output().unwrap();
        assert_eq!(shell.status.success(), starts, "{enabled}: {shell:?}");
    }
}

#[test]
fn examples_for_kubelet_kubeadm_and_crictl_name_the_default_socket() {
    let socket = resolve(Vec::new(), None, &|_| None).unwrap().settings.listen;
    let Listen::Path(socket) = socket else { panic!("{socket:?}") };
    for (file, keys) in [
        ("kubelet.conf", &["containerRuntimeEndpoint"][..]),
        ("kubeadm.yaml", &["criSocket"]),
        ("crictl.yaml", &["runtime-endpoint", "image-endpoint"]),
    ] {
        let text = fs::read_to_string(format!("packaging/examples/{file}")).unwrap();
        for key in keys {
            let line = format!("{key}: unix://{}", socket.display());
            assert!(text.lines().any(|it| it.trim_start() == line), "{file}: {line}");
        }
    }
}

#[test]
fn manual_pages_and_completions_know_every_setting_and_command() {
    let directory = tempfile::tempdir().unwrap();
    documents::write_all(directory.path()).unwrap();
    let read = |path: &str| fs::read_to_string(directory.path().join(path)).unwrap();
    // In manual pages, roff's `\-` is a dash, and `\*(Aq` an apostrophe.
    let page = read("man/man8/dockbridge.8").replace(r"\*(Aq", "'").replace('\\', "");
    let file = read("man/man5/dockbridge.toml.5").replace('\\', "");
    for key in Key::ALL {
        let flag = format!("--{}", key.name());
        assert!(page.contains(&flag), "dockbridge.8 lacks {flag}");
        let help: Vec<&str> = key.definition().help.split_whitespace().take(3).collect();
        assert!(page.contains(&help.join(" ")), "dockbridge.8 does not explain {flag}");
        assert!(file.contains(&format!("{} = ", key.name())), "dockbridge.toml.5 lacks {flag}");
    }
    for path in [
        "bash-completion/completions/dockbridge",
        "zsh/site-functions/_dockbridge",
        "fish/vendor_completions.d/dockbridge.fish",
    ] {
        let text = read(path);
        assert!(text.contains("state-dir") && text.contains("takeover"), "{path}");
        assert!(!text.contains("cri-dockerd-root-directory"), "{path} offers a hidden flag");
        let offered =
            |words: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").contains(words);
        // The completion for fish has one line for each value of a setting.
        assert!(offered("cni docker") || offered("cni\\t'' docker"), "{path}: no values");
    }
}

/// Every command has a manual page with the usual sections. No manual page refers to a page of dockbridge
/// that does not exist, and the examples are valid commands.
#[test]
fn manual_pages_have_all_sections_and_lead_to_each_other() {
    let directory = tempfile::tempdir().unwrap();
    documents::write_all(directory.path()).unwrap();
    let mut pages = BTreeMap::new();
    for entry in ["man5", "man8"].iter().flat_map(|at| {
        fs::read_dir(directory.path().join("man").join(at)).unwrap().map(Result::unwrap)
    }) {
        let text = fs::read_to_string(entry.path()).unwrap().replace('\\', "");
        let name = entry.file_name().into_string().unwrap();
        let (name, number) = name.rsplit_once('.').unwrap();
        pages.insert(format!("{name}({number})"), text);
    }
    let mut expected = vec!["dockbridge.toml(5)".to_owned(), "dockbridge-runtime(8)".to_owned()];
    add_names(&Invocation::command(), "", &mut expected);
    expected.sort();
    assert_eq!(pages.keys().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    for (name, text) in &pages {
        assert!(
            name == "dockbridge(8)" || !text.contains("--state-dir <"),
            "{name} lists settings"
        );
        for heading in ["EXIT STATUS", "FILES", "EXAMPLES", "SEE ALSO"] {
            let has_none = name == "dockbridge.toml(5)" && heading == "EXIT STATUS";
            let (_, rest) = match text.split_once(&format!("\n.SH \"{heading}\"\n")) {
                None => text.split_once(&format!("\n.SH {heading}\n")).unwrap_or(("", "")),
                Some(found) => found,
            };
            let content = rest.split("\n.SH").next().unwrap();
            assert!(has_none || !content.trim().is_empty(), "{name} has no {heading}");
        }
        let words = text.split(|c: char| !(c.is_alphanumeric() || "-.()".contains(c)));
        let named = words.filter(|word| word.starts_with("dockbridge") && word.contains('('));
        for reference in named.map(|word| word.trim_end_matches(['.', ','])) {
            assert!(pages.contains_key(reference), "{name} leads to {reference}, which is missing");
        }
    }
    for (_, _, example) in documents::manual::EXAMPLES {
        let (_, command) = example.split_once("dockbridge ").unwrap_or_default();
        let command = command.split(['|', '>', ';']).next().unwrap();
        let given: Vec<OsString> =
            format!("dockbridge {command}").split_whitespace().map(OsString::from).collect();
        Invocation::read(&given).unwrap_or_else(|error| panic!("{example}: {error}"));
    }
}

/// Adds the names of the manual pages of a command and of its subcommands.
fn add_names(command: &clap::Command, parent: &str, names: &mut Vec<String>) {
    let name = format!("{parent}{}", command.get_name());
    names.push(format!("{name}(8)"));
    command.get_subcommands().for_each(|below| add_names(below, &format!("{name}-"), names));
}

#[test]
fn command_lines_of_cri_dockerd_are_understood() {
    let units = fixtures();
    let at = |folder: &str| read(&units[folder]);
    for folder in ["mirantis-0.3", "mirantis-0.2", "minikube", "minikube-1.26", "kubeadm-pause"] {
        at(folder);
    }
    let listen = |folder| at(folder).settings.listen;
    for folder in ["kubeadm-no-endpoint", "kubespray", "no-socket"] {
        assert_eq!(listen(folder), Listen::Path("/var/run/cri-dockerd.sock".into()), "{folder}");
    }
    let kubespray = at("kubespray").settings;
    assert_eq!(kubespray.pod_cidrs.len(), 2, "{kubespray:?}");
    let text = fs::read_to_string("tests/fixtures/units/commands").unwrap();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        read(&words(line));
    }
}

#[test]
fn our_units_start_what_is_packaged() {
    for (path, program) in [
        ("packaging/systemd/dockbridge.service", "/usr/bin/dockbridge"),
        ("packaging/systemd/cri-docker.service", "/usr/bin/cri-dockerd"),
    ] {
        let words = command_of(&fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(words[0], program, "{path}");
        read(&words);
        let reload = format!("\nExecReload={program} reload --environment\n");
        assert!(fs::read_to_string(path).unwrap().contains(&reload), "{path}");
        let socket = path.replace(".service", ".socket");
        let (unit, own) = (fs::read_to_string(&socket).unwrap(), read(&words).settings.listen);
        let opened = unit.lines().find_map(|line| line.strip_prefix("ListenStream=")).unwrap();
        // /var/run is a symbolic link to /run.
        assert_eq!(own.to_string().replace("/var/run", "/run"), opened, "{socket}");
    }
}

#[test]
fn both_units_run_the_program_in_the_same_way() {
    let ways = |path| {
        let unit = fs::read_to_string(path).unwrap();
        let service = unit.split("[Service]").nth(1).unwrap().split("[Install]").next().unwrap();
        let differs = |line: &&str| line.starts_with('#') || line.starts_with("Exec");
        let lines = service.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.filter(|line| !differs(line)).map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let own = ways("packaging/systemd/dockbridge.service");
    assert!(own.contains("NoNewPrivileges=yes"), "{own:?}");
    assert_eq!(own, ways("packaging/systemd/cri-docker.service"));
}

#[test]
fn alerts_and_dashboard_name_metrics_that_exist_and_what_to_do() {
    let known = metrics();
    let text = fs::read_to_string("docs/prometheus/alerts.yaml").unwrap();
    let rules: Rules = serde_saphyr::from_str(&text).unwrap();
    let rules: Vec<Rule> = rules.groups.into_iter().flat_map(|group| group.rules).collect();
    assert!(rules.len() >= 10, "the rules were not found");
    for rule in &rules {
        assert!(!rule.annotations["runbook"].is_empty(), "{}", rule.alert);
        assert!(!rule.annotations["summary"].is_empty(), "{}", rule.alert);
        assert!(["warning", "critical"].contains(&rule.labels["severity"].as_str()));
        let named: Vec<&str> = names(&rule.expr);
        assert!(!named.is_empty() || rule.expr.starts_with("up{"), "{} has no metric", rule.alert);
        for name in named {
            assert!(known.contains(name), "{}: docs/metrics.md has no {name}", rule.alert);
        }
    }
    let alerts: BTreeSet<&str> = rules.iter().map(|rule| rule.alert.as_str()).collect();
    assert_eq!(alerts.len(), rules.len(), "an alert's name is there twice");
    let dashboard = fs::read_to_string("docs/grafana/dockbridge.json").unwrap();
    let board: Dashboard = serde_json::from_str(&dashboard).unwrap();
    for panel in board.panels.iter().filter(|panel| panel.kind != "row") {
        assert!(!panel.description.is_empty(), "{} does not say what to look for", panel.title);
    }
    let shown = dashboard.lines().filter(|line| line.trim_start().starts_with("\"expr\""));
    for name in shown.flat_map(names) {
        assert!(known.contains(name), "the dashboard: docs/metrics.md has no {name}");
    }
}

#[derive(Deserialize)]
struct Dashboard {
    panels: Vec<Panel>,
}

#[derive(Deserialize)]
struct Panel {
    title: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    description: String,
}

#[derive(Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
struct Rule {
    alert: String,
    expr: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

/// The names of all Prometheus series in docs/metrics.md, three for each histogram.
fn metrics() -> BTreeSet<String> {
    let text = fs::read_to_string("docs/metrics.md").unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let series = rows.filter_map(|row| {
        let (name, rest) = row.split_once("` | ")?;
        let suffixes: &[&str] =
            if rest.starts_with("histogram") { &["_bucket", "_sum", "_count"] } else { &[""] };
        Some(suffixes.iter().map(move |suffix| format!("{name}{suffix}")))
    });
    series.flatten().collect()
}

/// The names of dockbridge's metrics in a PromQL expression.
fn names(expression: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    expression
        .split(|c| !is_name(c))
        .filter(|word| word.starts_with("dockbridge_") || word.starts_with("process_"))
        .collect()
}

/// For each directory of fixtures, the command line of cri-dockerd's unit after its drop-ins are applied.
fn fixtures() -> BTreeMap<String, Vec<String>> {
    let folders = fs::read_dir("tests/fixtures/units").unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    assert!(folders.len() > 5, "the units were not found");
    folders
        .into_iter()
        .map(|folder| {
            let service = ["cri-docker", "cri-dockerd"]
                .map(|name| folder.join(format!("{name}.service")))
                .into_iter()
                .find(|path| path.exists())
                .unwrap();
            let mut text = fs::read_to_string(&service).unwrap();
            let drop_ins = service.with_extension("service.d");
            for entry in fs::read_dir(drop_ins).into_iter().flatten() {
                text += &fs::read_to_string(entry.unwrap().path()).unwrap();
            }
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            (name, command_of(&text).unwrap())
        })
        .collect()
}

/// The words of a unit's last `ExecStart=` that is not empty.
fn command_of(unit: &str) -> Option<Vec<String>> {
    let mut lines = unit.lines().filter_map(|line| line.strip_prefix("ExecStart="));
    lines.rfind(|line| !line.is_empty()).map(words)
}

/// Splits a command line into words as systemd and shells do, but only for the syntax that the fixtures use.
fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(|word| word.replace('"', "")).collect()
}

fn read(words: &[String]) -> Resolved {
    let given: Vec<OsString> = words.iter().map(OsString::from).collect();
    let invocation = Invocation::read(&given).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert_eq!(invocation.command, Command::Serve, "{words:?}");
    resolve(invocation.values, None, &|_| None).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// systemd does not interpret the package's settings file as shell code. A package script that interpreted the
/// settings file as shell code could run `b` of the value `a, b` as root.
#[test]
fn the_package_does_not_run_the_settings() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let settings = format!("DOCKBRIDGE_PINNED_IMAGES=a, touch {}\n", path("ran").display());
    fs::write(path("default"), settings).unwrap();
    let script = fs::read_to_string("packaging/deb/dockbridge.postinst").unwrap();
    let (_, rest) = script.split_once("not_ready() {").unwrap();
    let (body, _) = rest.split_once("\n}\n").unwrap();
    let function = format!("not_ready() {{{body}\n}}")
        .replace("/etc/default/dockbridge", path("default").to_str().unwrap())
        .replace("timeout 60 dockbridge", env!("CARGO_BIN_EXE_dockbridge"));
    let program = format!("systemctl() {{ return 1; }}\n{function}\nnot_ready\n");
    let docker = path("missing.sock");
    let command = |program: &str| {
        let output = std::process::Command::new("sh")
            .args(["-c", program])
            .env("DOCKBRIDGE_DOCKER", &docker)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let told = command(&program);
    assert!(told.contains("DOCKBRIDGE_PINNED_IMAGES"), "the check did not read it: {told}");
    assert!(!path("ran").exists());
    fs::write(path("default"), "DOCKBRIDGE_LISTEN=nonsense here\n").unwrap();
    let told = command(&program);
    assert!(told.contains("DOCKBRIDGE_LISTEN") && told.contains("nonsense here"), "{told}");
}

/// Without a command (`--version`), `dockbridge-runtime` also prints its own version, on standard error.
/// Docker and containerd read only standard output, which is runc's.
#[test]
fn the_runtime_names_itself_beside_the_version_of_runc() {
    let run = |word: &str| {
        let made = std::process::Command::new(env!("CARGO_BIN_EXE_dockbridge"))
            .args(["runtime", "--dockbridge-runtime", "echo", word])
            .output()
            .unwrap();
        (String::from_utf8(made.stdout).unwrap(), String::from_utf8(made.stderr).unwrap())
    };
    let own = format!("dockbridge-runtime {} runs echo:\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run("--debug"), ("--debug\n".to_owned(), own));
    assert_eq!(run("state"), ("state\n".to_owned(), String::new()));
}
