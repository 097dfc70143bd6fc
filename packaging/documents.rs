//! Writes the manual pages, the shell completions and the example configuration, all from the flags
//! and the table of settings: `cargo run --example documents -- DIRECTORY`. Not part of the program.

pub(crate) mod manual;

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

use clap::{Arg, Command};
use clap_complete::{
    Shell::{Bash, Fish, Zsh},
    generate_to,
};
use dockbridge::{cli::command_line::Invocation, config::key::Key};

#[allow(dead_code, reason = "the tests include this file as a module")]
fn main() -> Result<(), Box<dyn Error>> {
    let directory = env::args_os().nth(1).ok_or("usage: documents DIRECTORY")?;
    write_all(Path::new(&directory))
}

/// Everything, below `share` as it is installed.
pub(crate) fn write_all(directory: &Path) -> Result<(), Box<dyn Error>> {
    let make = |path: &str| -> Result<_, Box<dyn Error>> {
        let path = directory.join(path);
        fs::create_dir_all(&path)?;
        Ok(path)
    };
    manual::write_all(&directory.join("man"))?;
    for (shell, path) in COMPLETIONS {
        let path = make(path)?;
        let mut command = shown(&Invocation::command()).version(env!("CARGO_PKG_VERSION"));
        let written = generate_to(shell, &mut command, NAME, &path)?;
        if shell == Bash {
            fs::rename(written, path.join(NAME))?;
        }
    }
    let examples = make("doc/dockbridge/examples")?;
    fs::write(examples.join(format!("{NAME}.toml")), example_configuration())?;
    Ok(())
}

/// Without the flags of cri-dockerd: nobody needs help to type those.
fn shown(command: &Command) -> Command {
    let name: &'static str = command.get_name().to_owned().leak();
    Command::new(name)
        .about(command.get_about().cloned().unwrap_or_default())
        // Settings are offered once, not behind each command.
        .args(
            command
                .get_arguments()
                .filter(|flag| !flag.is_hide_set())
                .map(|flag| with_words(flag.clone().global(false))),
        )
        .subcommands(command.get_subcommands().map(shown))
}

/// Offers the words of a value that is named `one|other`. The program itself accepts any text there, because
/// it checks the values of all sources together.
fn with_words(flag: Arg) -> Arg {
    let name = flag.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    match name.filter(|name| name.contains('|')) {
        Some(words) => {
            let words: &'static str = words.leak();
            flag.value_parser(words.split('|').collect::<Vec<_>>())
        }
        None => flag,
    }
}

/// The defaults as a file, each line a comment.
pub(crate) fn example_configuration() -> String {
    let mut text = String::from(HEAD);
    for key in Key::ALL {
        let help = key.definition().help.trim();
        let _ = write!(text, "\n# {help}\n#{}\n", assignment(key));
    }
    text
}

fn assignment(key: Key) -> String {
    format!("{} = \"{}\"", key.name(), key.default())
}

const NAME: &str = "dockbridge";
/// Where each shell looks below `share`.
const COMPLETIONS: [(clap_complete::Shell, &str); 3] = [
    (Bash, "bash-completion/completions"),
    (Zsh, "zsh/site-functions"),
    (Fish, "fish/vendor_completions.d"),
];
const HEAD: &str = "\
# Configuration of dockbridge: every setting with its default. See dockbridge.toml(5).
# Flags and DOCKBRIDGE_* variables override this file. \"dockbridge config\" prints the values in use.
";
