//! The manual pages: of the program, of each command, of the OCI runtime, and of the configuration file. Flags and settings
//! come from the program, the other sections from the tables below.

use std::{error::Error, fs, path::Path};

use clap::{Arg, Command};
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use dockbridge::{
    cli::command_line::Invocation,
    config::key::{Change, Key},
};

use super::{NAME, assignment};

/// Writes all pages below `man`.
pub(crate) fn write_all(man: &Path) -> Result<(), Box<dyn Error>> {
    let (commands, formats) = (man.join("man8"), man.join("man5"));
    for directory in [&commands, &formats] {
        fs::create_dir_all(directory)?;
    }
    let mut pages = vec![(RUNTIME.to_owned(), runtime_page())];
    add_pages(&Invocation::command(), &[], &mut pages)?;
    for (name, text) in pages {
        fs::write(commands.join(format!("{name}.8")), text)?;
    }
    fs::write(formats.join(format!("{NAME}.toml.5")), file_page())?;
    Ok(())
}

/// The page of a command and of those below it.
fn add_pages(
    command: &Command,
    parents: &[&str],
    pages: &mut Vec<(String, String)>,
) -> Result<(), Box<dyn Error>> {
    let words: Vec<&str> = parents.iter().copied().chain([command.get_name()]).collect();
    // clap keeps names for as long as the program runs.
    let name: &'static str = words.join("-").leak();
    let page = command
        .clone()
        .name(name)
        .display_name(name)
        .bin_name(words.join(" "))
        .override_usage(synopsis(command, &words))
        // A page says all of it, as `--help` does.
        .mut_args(|flag| flag.hide_short_help(false))
        // There is no page about help.
        .disable_help_subcommand(true);
    let man = Man::new(page).section("8").source(source()).manual(MANUAL);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut text = String::from_utf8(text)?;
    if parents.is_empty() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        text += &section("ENVIRONMENT", |page| {
            page.text([roman(help.replace('\n', " "))]);
        });
    }
    text += &own_sections(name);
    let parent = if parents.is_empty() { RUNTIME.to_owned() } else { parents.join("-") };
    text += &see_also(&[&format!("{parent}(8)"), &format!("{NAME}.toml(5)")]);
    pages.push((name.to_owned(), text));
    for below in command.get_subcommands() {
        add_pages(below, &words, pages)?;
    }
    Ok(())
}

/// The command with its own flags and their values.
fn synopsis(command: &Command, words: &[&str]) -> String {
    let mut parts = vec![words.join(" ")];
    if words.len() > 1 {
        parts.extend(command.get_arguments().filter(|flag| !flag.is_hide_set()).map(usage));
    }
    match command.has_subcommands() {
        true if command.is_subcommand_required_set() => parts.push("COMMAND".to_owned()),
        true => parts.push("[COMMAND]".to_owned()),
        false => {}
    }
    parts.push("[--SETTING VALUE]...".to_owned());
    parts.join(" ")
}

fn usage(flag: &Arg) -> String {
    let value = flag.get_value_names().map_or_else(
        || flag.get_id().as_str().to_uppercase(),
        |names| names.iter().map(clap::builder::Str::as_str).collect::<Vec<_>>().join(" "),
    );
    match flag.get_long() {
        Some(long) if flag.get_action().takes_values() => format!("[--{long} {value}]"),
        Some(long) => format!("[--{long}]"),
        None => format!("[{value}]"),
    }
}

/// The page of the OCI runtime, which has no flags that clap knows.
fn runtime_page() -> String {
    let mut page = title(RUNTIME, "8");
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{RUNTIME} - OCI runtime that adds what the Engine API lacks"))]);
    page.control("SH", ["SYNOPSIS"]);
    page.text([
        bold(RUNTIME),
        roman(" [--dockbridge-runtime RUNTIME] [RUNC-FLAG]... COMMAND [ARGUMENT]..."),
    ]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "containerd runs this program, not users. \"dockbridge setup\" registers it with Docker. Before a \
         container of a pod is created, it changes the container's config.json: user namespaces, \
         id-mapped mounts, mount options, ambient capabilities. Then it runs runc, or the runtime that \
         --dockbridge-runtime names. All other commands, flags and containers go to that runtime \
         unchanged.",
    )]);
    page.render() + &own_sections(RUNTIME) + &see_also(&["dockbridge(8)", "dockbridge-setup(8)"])
}

/// The page of the configuration file.
fn file_page() -> String {
    let mut page = title(&format!("{NAME}.toml"), "5");
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{NAME}.toml - configuration file of {NAME}(8)"))]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "The file named by --config or by the variable DOCKBRIDGE_CONFIG. It is flat TOML, one line \
         for each setting: its name, an equals sign, and the value as a string or a list of strings. A \
         flag overrides the environment, the environment overrides the file, and the file overrides the \
         default. An unknown name is an error. \
         \"dockbridge config\" prints every value with its source.",
    )]);
    page.control("SH", ["SETTINGS"]);
    for key in Key::ALL {
        let setting = key.definition();
        page.control("TP", []);
        page.text([roman(assignment(key))]);
        let change = match setting.change {
            Change::Reload => "dockbridge reload applies a change",
            Change::Restart => "A change needs a restart",
        };
        page.text([roman(format!("{}. {change}.", setting.help.trim()))]);
        page.text([roman(format!("Variable {}.", key.environment_variable()))]);
    }
    let files = section("FILES", |page| list(page, &[CONFIGURATION, ENVIRONMENT]));
    let example = section("EXAMPLES", |page| {
        let lines = "network = \"cni\"\ncni-bin-dir = [\"/opt/cni/bin\", \"/usr/lib/cni\"]\nlog-format = \"json\"";
        verbatim(page, lines);
    });
    page.render() + &files + &example + &see_also(&["dockbridge(8)", "dockbridge-config(8)"])
}

/// EXIT STATUS, FILES and EXAMPLES.
fn own_sections(name: &str) -> String {
    let own = EXIT.iter().find(|(known, ..)| *known == name);
    let (_, success, failure) = own.copied().unwrap_or(("", SUCCESS, FAILURE));
    let mut codes = vec![("0", success), ("1", failure), ("2", MISTYPED)];
    if name == RUNTIME {
        codes = vec![("1", failure), ("other", success)];
    }
    let files = FILES.iter().find(|(known, _)| *known == name).map_or(COMMON, |(_, files)| files);
    let examples = EXAMPLES.iter().filter(|(known, ..)| *known == name);
    section("EXIT STATUS", |page| list(page, &codes))
        + &section("FILES", |page| list(page, files))
        + &section("EXAMPLES", |page| {
            for (_, purpose, command) in examples {
                page.control("PP", []);
                page.text([roman(format!("{purpose}:"))]);
                verbatim(page, command);
            }
        })
}

fn title(name: &str, number: &str) -> Roff {
    let mut page = Roff::new();
    page.control("TH", [name, number, "", &source(), MANUAL]);
    page
}

fn section(heading: &str, content: impl FnOnce(&mut Roff)) -> String {
    let mut page = Roff::new();
    page.control("SH", [heading]);
    content(&mut page);
    // Without the definitions that begin a page.
    let text = page.render();
    text.split_once(".SH").map_or_else(String::new, |(_, rest)| format!(".SH{rest}"))
}

fn list(page: &mut Roff, items: &[(&str, &str)]) {
    for (name, meaning) in items {
        page.control("TP", []);
        page.text([bold(*name)]);
        page.text([roman(*meaning)]);
    }
}

fn verbatim(page: &mut Roff, text: &str) {
    page.control("PP", []);
    page.control("RS", ["4"]);
    page.control("nf", []);
    page.text([roman(text)]);
    page.control("fi", []);
    page.control("RE", []);
}

fn see_also(pages: &[&str]) -> String {
    section("SEE ALSO", |page| {
        page.text([roman(pages.join(", "))]);
    })
}

fn source() -> String {
    format!("{NAME} {}", env!("CARGO_PKG_VERSION"))
}

const MANUAL: &str = "dockbridge manual";
const RUNTIME: &str = "dockbridge-runtime";

const SUCCESS: &str = "The command succeeded.";
const FAILURE: &str = "The command failed, or a setting has an error.";
const MISTYPED: &str = "The command line has an error.";
/// Commands whose success or failure means more: success, failure.
const EXIT: &[(&str, &str, &str)] = &[
    ("dockbridge-serve", "A signal ended the server.", "The server could not start, or it failed."),
    (
        "dockbridge-check",
        "No finding is FAIL.",
        "A finding is FAIL, or a setting has an error, or with --takeover or --upgrade a pod would be recreated.",
    ),
    ("dockbridge-debug-health", "Pods can run.", "Pods cannot run, or dockbridge does not run."),
    (
        "dockbridge-reload",
        "The settings were read and applied.",
        "A setting has an error and nothing was changed, or dockbridge does not run.",
    ),
    (
        RUNTIME,
        "The exit status of the runtime that it runs.",
        "The container's changes cannot be applied. Docker and the log show the reason.",
    ),
];

const CONFIGURATION: (&str, &str) = ("/etc/dockbridge.toml", "Settings of the service.");
const ENVIRONMENT: (&str, &str) = (
    "/etc/default/dockbridge",
    "Environment of the service; it may name the file with the settings. /etc/sysconfig/dockbridge in RPM packages.",
);
const COMMON: &[(&str, &str)] = &[CONFIGURATION, ENVIRONMENT, ADMIN];
const ADMIN: (&str, &str) =
    ("/run/dockbridge/admin.sock", "The running dockbridge answers here (--run-dir moves it).");
/// Files that matter to a command, if they are not the common ones.
const FILES: &[(&str, &[(&str, &str)])] = &[
    (
        "dockbridge-serve",
        &[
            ("/run/dockbridge/dockbridge.sock", "The CRI socket (--listen)."),
            ADMIN,
            ("/run/dockbridge", "User namespaces and image volumes of pods (--run-dir)."),
            ("/run/netns", "Network namespaces of pods."),
            ("/var/lib/dockbridge", "What must survive a reboot (--state-dir)."),
            ("/etc/cni/net.d", "CNI configurations (--cni-conf-dir)."),
            ("/var/run/docker.sock", "Docker's socket (--docker)."),
        ],
    ),
    (
        "dockbridge-setup",
        &[
            ("/etc/docker/daemon.json", "Docker's configuration, which gets the entry."),
            (
                "/etc/docker/daemon.json.before-dockbridge",
                "The same file as it was before the first change.",
            ),
            CONFIGURATION,
            ENVIRONMENT,
        ],
    ),
    ("dockbridge-version", &[(NAME, "The command reads no file.")]),
    (
        RUNTIME,
        &[
            (
                "/run/dockbridge-runtime/ID/edits.json",
                "What to change in the container ID. dockbridge writes it before each start.",
            ),
            ("/etc/docker/daemon.json", "Docker finds the runtime here."),
        ],
    ),
];

/// Command, purpose, example. A test reads the command lines.
pub(crate) const EXAMPLES: &[(&str, &str, &str)] = &[
    (NAME, "Examine this host before kubelet uses it", "dockbridge check"),
    (NAME, "Print the settings of the service, each with its source", "dockbridge config"),
    (
        "dockbridge-serve",
        "Serve with the bridge of the engine, without CNI, as for CI",
        "dockbridge serve --network docker",
    ),
    (
        "dockbridge-serve",
        "Serve a second engine beside the first one",
        "dockbridge serve --docker unix:///run/other.sock --listen unix:///run/other/cri.sock --run-dir /run/other --state-dir /var/lib/other",
    ),
    (
        "dockbridge-config",
        "Print the settings of the service, each with its source",
        "dockbridge config",
    ),
    ("dockbridge-config", "Print what a reload would change", "dockbridge config --diff"),
    ("dockbridge-reload", "Apply an edited configuration file", "dockbridge reload"),
    ("dockbridge-check", "Examine this host", "dockbridge check"),
    ("dockbridge-check", "Also run a pod, with the time of each step", "dockbridge check --pod"),
    (
        "dockbridge-check",
        "Say what happens to the pods of cri-dockerd",
        "dockbridge check --takeover",
    ),
    ("dockbridge-check", "Say what an upgrade of Docker would do", "dockbridge check --upgrade"),
    (
        "dockbridge-check",
        "Print the failures for a program",
        "dockbridge check --json | jq '.findings[] | select(.severity == \"FAIL\")'",
    ),
    ("dockbridge-debug", "Find out what hangs, oldest first", "dockbridge debug tasks"),
    (
        "dockbridge-debug",
        "Wait until pods can run",
        "until dockbridge debug health; do sleep 1; done",
    ),
    (
        "dockbridge-debug-state",
        "Keep the state for a bug report",
        "dockbridge debug state >state.json",
    ),
    ("dockbridge-debug-tasks", "Find out what hangs, oldest first", "dockbridge debug tasks"),
    (
        "dockbridge-debug-metrics",
        "Print the failed calls to Docker",
        "dockbridge debug metrics | grep engine_request_duration_seconds_count | grep -v 'result=\"ok\"'",
    ),
    (
        "dockbridge-debug-health",
        "Wait until pods can run",
        "until dockbridge debug health; do sleep 1; done",
    ),
    ("dockbridge-setup", "Show what would change", "dockbridge setup --dry-run"),
    ("dockbridge-setup", "Register the runtime", "dockbridge setup"),
    (
        "dockbridge-setup",
        "Remove the entry before the package is removed",
        "dockbridge setup --undo",
    ),
    ("dockbridge-support", "Write a report for a bug", "dockbridge support >report.txt"),
    ("dockbridge-version", "Print the version", "dockbridge version"),
    (RUNTIME, "Register it with Docker", "dockbridge setup"),
    (RUNTIME, "Ask Docker whether it knows the runtime", "docker info --format '{{.Runtimes}}'"),
];
