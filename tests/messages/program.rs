//! Prints the texts of the program in one list for review (`make messages`): log messages, errors, findings of the
//! check, all other texts of more than one word, and the help of every command. The texts other than the help are read
//! from the source code.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    reason = "it runs on a developer's machine and fails by panicking"
)]

use clap::Command;
use dockbridge::cli::command_line::Invocation;

#[path = "../architecture/source.rs"]
#[allow(dead_code, reason = "the tests of the structure use all of it")]
mod source;
#[path = "texts.rs"]
mod texts;

fn main() {
    let mut found = Vec::new();
    for file in source::files("src").into_iter().filter(|file| !file.is_test()) {
        for text in texts::texts(&file.tokens) {
            let in_check = text.kind == "text" && file.module() == "check";
            let kind = if in_check { "check" } else { text.kind };
            found.push((kind, format!("{}:{}", file.path, text.line), text.text));
        }
    }
    found.sort();
    for (kind, place, text) in found {
        println!("{kind:5} {place}: {}", text.replace('\n', "\n      "));
    }
    print_help(&Invocation::command(), "");
}

/// Prints the help of a command and of its subcommands.
fn print_help(command: &Command, above: &str) {
    let name = format!("{above}{}", command.get_name());
    println!("\nhelp  {name}\n\n{}", command.clone().bin_name(&name).render_long_help());
    for below in command.get_subcommands() {
        print_help(below, &format!("{name} "));
    }
}
