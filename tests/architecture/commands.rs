//! Tests that dockbridge's commands and flags and make's targets in documents exist, except in `docs/decisions`. This
//! test also checks commands inside sentences. `make book-test` runs the commands in blocks that are marked as tested.

use std::{ffi::OsString, fs};

use clap::error::ErrorKind;
use dockbridge::cli::command_line::Invocation;

use super::{
    figures::{pages, read},
    hold,
};

#[test]
fn commands_of_documents_are_understood() {
    let makefile = fs::read_to_string(format!("{}/Makefile", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut breaches = Vec::new();
    let mut count = 0;
    for page in pages() {
        for command in commands(&read(&page)) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let known = match words[..] {
                ["make", target, ..] => {
                    target.contains('=') || makefile.contains(&format!("\n{target}:"))
                }
                ["dockbridge", ..] => is_understood(&words),
                [flag] if flag.starts_with("--") => is_flag(flag) || FOREIGN.contains(&flag),
                _ => continue,
            };
            count += 1;
            if !known {
                breaches.push(format!("{page}: {command}"));
            }
        }
    }
    assert!(count > 100, "the commands were not found");
    hold("commands and flags that nothing knows", &breaches);
}

/// Whether dockbridge accepts the part of a command before the first placeholder, such as `[--pod]` or `state|tasks`.
fn is_understood(words: &[&str]) -> bool {
    let ends = |word: &&str| word.starts_with(['#', '&', '[', '…']) || word.contains(['|', '>']);
    let end = words.iter().position(ends);
    let words: Vec<OsString> =
        words[..end.unwrap_or(words.len())].iter().map(OsString::from).collect();
    // The name of a command group without a subcommand is also accepted.
    match Invocation::read(&words) {
        Ok(_) => true,
        Err(error) => matches!(
            error.kind(),
            ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
        ),
    }
}

fn is_flag(flag: &str) -> bool {
    let name = flag.trim_start_matches("--").split(['=', ' ']).next().unwrap();
    let command = Invocation::command();
    let all = std::iter::once(&command).chain(command.get_subcommands());
    let mut flags = all.flat_map(clap::Command::get_arguments).filter_map(clap::Arg::get_long);
    name == "version" || name == "help" || flags.any(|known| known == name)
}

/// The texts of a page that can be commands: between backticks, after a prompt, or in an indented line.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        let block = line.strip_prefix("$ ").or_else(|| line.strip_prefix("    "));
        match block {
            Some(command) => found.push(command.trim().to_owned()),
            None => found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned)),
        }
    }
    found
}

/// Words in documents that look like dockbridge's flags but belong to other programs.
const FOREIGN: &[&str] = &[
    "--storage-opt",
    "--ip-forward=false",
    "--container-runtime=remote",
    "--cri-socket",
    "--config-dir",
    "--ignore-preflight-errors=ImagePull",
    "--ignore-preflight-errors=SystemVerification",
];
