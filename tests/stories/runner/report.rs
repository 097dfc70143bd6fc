//! Prints the output of a run: each test when it ends, the slowest tests, failures with the command that repeats each
//! failed test, and counts like those of Rust's test harness.

use std::{
    io::{IsTerminal as _, Write as _, stderr},
    process::ExitCode,
    time::Instant,
};

use super::{Ended, Event, worlds::Engine};

pub(super) struct Report {
    engine: Engine,
    begun: Instant,
    total: usize,
    running: Vec<&'static str>,
    ended: Vec<Ended>,
    /// The failed tests, each with the result of repeating it alone, or with the text that it did not begin.
    labels: Vec<(&'static str, &'static str)>,
    on_terminal: bool,
}

impl Report {
    pub(super) fn begin(engine: &Engine, worlds: usize, total: usize) -> Self {
        println!("running {total} tests in {worlds} worlds with engine {engine}");
        Self {
            engine: engine.clone(),
            begun: Instant::now(),
            total,
            running: Vec::new(),
            ended: Vec::new(),
            labels: Vec::new(),
            on_terminal: stderr().is_terminal(),
        }
    }

    pub(super) fn note(&mut self, event: Event) {
        if self.on_terminal {
            eprint!("\r\u{1b}[K");
        }
        match event {
            Event::Began(name) => self.running.push(name),
            Event::Ended(ended) => {
                self.running.retain(|name| *name != ended.name);
                print_ended(&ended);
                self.ended.push(ended);
            }
        }
        if self.on_terminal {
            let line = format!("{}/{}: {}", self.ended.len(), self.total, self.running.join(" "));
            eprint!("{}", line.chars().take(TERMINAL_WIDTH).collect::<String>());
            stderr().flush().ok();
        }
    }

    /// Repeats alone each failed test that had begun. The result of the repeat is only printed: the failed test
    /// still counts as failed.
    pub(super) fn label_failures(&mut self, repeat: impl Fn(&'static str) -> bool) {
        if self.on_terminal {
            eprint!("\r\u{1b}[K");
        }
        let label = |test: &Ended| match test {
            Ended { has_begun: false, .. } => "did not begin",
            Ended { name, .. } if repeat(name) => "passed when repeated alone",
            _ => "failed again alone",
        };
        let failed = self.ended.iter().filter(|test| !test.passed);
        self.labels = failed.map(|test| (test.name, label(test))).collect();
    }

    pub(super) fn print_verdict(mut self) -> ExitCode {
        let took = self.begun.elapsed().as_secs_f32();
        self.ended.sort_by_key(|test| std::cmp::Reverse(test.took));
        println!("\nslowest:");
        for test in self.ended.iter().take(SLOWEST) {
            println!("  {:6.1} s  {}", test.took.as_secs_f32(), test.name);
        }
        for (name, label) in &self.labels {
            println!("\nfailed: {name} ({label})");
            let test = self.ended.iter().find(|test| test.name == *name);
            print!("{}", test.map_or("", |test| test.output.as_str()));
            println!("repeat: make test-stories {} STORY={name}", self.engine.as_make_variables());
        }
        let left = self.total - self.ended.len();
        if left > 0 {
            println!("\n{left} more tests did not begin, because no world started");
        }
        let failed = self.labels.len();
        let word = if failed == 0 { "ok" } else { "FAILED" };
        let passed = self.ended.len() - failed;
        println!(
            "\ntest result: {word}. {passed} passed; {failed} failed; finished in {took:.1} s"
        );
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn print_ended(Ended { name, passed, took, output, .. }: &Ended) {
    let word = if *passed { "ok" } else { "FAILED" };
    println!("test {name} ... {word} ({:.1} s)", took.as_secs_f32());
    print!("{output}");
}

const SLOWEST: usize = 10;
const TERMINAL_WIDTH: usize = 100;
