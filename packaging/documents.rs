//! Writes the manual pages, the shell completions and the example configuration, all from the flags
//! and the table of settings: `cargo run --example documents -- DIRECTORY`. Not part of the program.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs::{self, File},
    io::Write as _,
    path::Path,
};

use clap::{Command, CommandFactory as _};
use clap_complete::{
    Shell::{Bash, Fish, Zsh},
    generate_to,
};
use clap_mangen::{Man, roff::Roff, roff::roman};
use dockbridge::{
    cli::command_line::CommandLine,
    config::key::{Change, Key},
};

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
    let pages = make("man/man8")?;
    for command in commands() {
        let name = command.get_display_name().unwrap_or(NAME).to_owned();
        let source = format!("{NAME} {}", env!("CARGO_PKG_VERSION"));
        let page = Man::new(command).section("8").source(source).manual(MANUAL);
        page.render(&mut File::create(pages.join(format!("{name}.8")))?)?;
    }
    let page = make("man/man5")?.join(format!("{NAME}.toml.5"));
    File::create(page)?.write_all(file_page().as_bytes())?;
    for (shell, path) in COMPLETIONS {
        let path = make(path)?;
        let mut command = shown(&CommandLine::command()).version(env!("CARGO_PKG_VERSION"));
        let written = generate_to(shell, &mut command, NAME, &path)?;
        if shell == Bash {
            fs::rename(written, path.join(NAME))?;
        }
    }
    let examples = make("doc/dockbridge/examples")?;
    fs::write(examples.join(format!("{NAME}.toml")), example_configuration())?;
    Ok(())
}

/// The program and its commands, each with the flags that are its own.
fn commands() -> Vec<Command> {
    let whole = CommandLine::command();
    let of = |command: &Command| {
        // clap keeps names for as long as the program runs.
        let name: &'static str = format!("{NAME}-{}", command.get_name()).leak();
        let usage = format!("{NAME} {}", command.get_name());
        command.clone().name(name).bin_name(usage).display_name(name)
    };
    let mut commands: Vec<Command> = whole.get_subcommands().map(of).collect();
    commands.push(whole.display_name(NAME));
    commands
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
                .map(|flag| flag.clone().global(false)),
        )
        .subcommands(command.get_subcommands().map(shown))
}

/// The page of the configuration file.
fn file_page() -> String {
    let mut page = Roff::new();
    let source = format!("{NAME} {}", env!("CARGO_PKG_VERSION"));
    page.control("TH", [&format!("{NAME}.toml"), "5", "", &source, MANUAL]);
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{NAME}.toml - configuration file of {NAME}(8)"))]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "The file named by --config or by the variable DOCKBRIDGE_CONFIG. It is flat TOML, one line \
         for each setting: its name, an equals sign, and the value as a string. A flag overrides the \
         environment, the environment the file, the file the default. An unknown name is an error. \
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
    page.control("SH", ["EXAMPLE"]);
    page.control("nf", []);
    page.text([roman("network = \"cni\"\ncni-bin-dir = [\"/opt/cni/bin\", \"/usr/lib/cni\"]")]);
    page.text([roman("log-format = \"json\"")]);
    page.control("fi", []);
    page.control("SH", ["SEE ALSO"]);
    page.text([roman(format!("{NAME}(8), {NAME}-config(8)"))]);
    page.render()
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
const MANUAL: &str = "dockbridge manual";
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
