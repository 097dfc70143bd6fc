//! Runs end-to-end tests in parallel worlds, each of which runs one test at a time.
//!
//! Each world is a child process that runs `tests/env/world.sh`, with its own engine. In each world, this program runs
//! again as a worker (`--worker`), which reads the names of tests from standard input and writes their
//! results. Tests mainly wait, so it pays to run more worlds than there are processors.

mod file_name;
mod report;
mod worlds;

use std::{
    collections::VecDeque,
    io::{BufRead as _, Write as _},
    process::ExitCode,
    sync::{Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use self::{
    report::Report,
    worlds::{Engine, WorldProcess},
};
use crate::{
    exchange::programs,
    support::{failure::Outcome, world::World},
};

pub(crate) use self::worlds::Engine as WorldEngine;

#[derive(Clone, Debug)]
struct Ended {
    name: &'static str,
    passed: bool,
    /// False if the test did not begin because no world started.
    has_begun: bool,
    took: Duration,
    /// The test's output. After a failure, the output ends with the reason and, if a world started, the path of the
    /// logs.
    output: String,
}

/// Runs these tests on an engine, in up to `jobs` worlds at the same time, and prints the result.
pub(crate) fn run(engine: &Engine, jobs: usize, tests: Vec<&'static str>) -> ExitCode {
    let jobs = jobs.min(tests.len());
    if tests.iter().any(|name| name.starts_with("exchange::"))
        && let Err(why) = programs::unpack(&engine.name)
    {
        println!("the tests of exchanged engines will fail: {why}");
    }
    let mut report = Report::begin(engine, jobs, tests.len());
    let queue = Mutex::new(longest_first(tests));
    let (results, ended) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (results, queue) = (results.clone(), &queue);
            scope.spawn(move || serve(engine, queue, &results));
        }
        drop(results);
        ended.iter().for_each(|event| report.note(event));
    });
    report.label_failures(|name| run_one(&mut None, engine, name).passed);
    report.print_verdict()
}

/// Messages from the thread of a world to the report.
enum Event {
    Began(&'static str),
    Ended(Ended),
}

/// Runs tests from the queue in a world until the queue is empty. Replaces the world after a failed test, and after a
/// test whose name starts with [`SPOILS_ITS_WORLD`]. If a world does not start, the thread ends, because another world
/// would probably not start either.
fn serve(engine: &Engine, queue: &Mutex<VecDeque<&'static str>>, results: &mpsc::Sender<Event>) {
    let mut world = None;
    loop {
        let Some(name) = queue.lock().ok().and_then(|mut queue| queue.pop_front()) else { return };
        // If the report has panicked, for example because its pipe is closed, nobody reads the results.
        if results.send(Event::Began(name)).is_err() {
            return;
        }
        let ended = run_one(&mut world, engine, name);
        if name.starts_with(SPOILS_ITS_WORLD) {
            world = None;
        }
        let has_begun = ended.has_begun;
        results.send(Event::Ended(ended)).ok();
        if !has_begun {
            return;
        }
    }
}

/// Runs a test in this world, or in a new world if there is none. If the test fails, ends the world and keeps its logs.
fn run_one(world: &mut Option<WorldProcess>, engine: &Engine, name: &'static str) -> Ended {
    let begun = Instant::now();
    let mut output = String::new();
    if world.is_none() {
        match WorldProcess::start(engine) {
            Ok(started) => *world = Some(started),
            Err(why) => output = format!("no world started: {why}\n"),
        }
    }
    let has_begun = world.is_some();
    let (mut passed, mut took) = (false, begun.elapsed());
    if let Some(running) = world {
        (passed, took) = running.run(name, &mut output).unwrap_or_else(|lost| {
            output += &format!("the world was lost: {lost}\n");
            (false, begun.elapsed())
        });
    }
    if !passed && let Some(failed) = world.take() {
        let logs = failed.end_with_logs(engine, name);
        output += &format!("logs: {}\n", logs.display());
    }
    Ended { name, passed, has_begun, took, output }
}

/// Runs the worker in a world: it runs each test whose name arrives on standard input.
pub(crate) fn work(world: &World, run: impl Fn(&World, &str) -> (Outcome, Duration)) -> ExitCode {
    println!("{READY}");
    for name in std::io::stdin().lock().lines().map_while(Result::ok) {
        let (outcome, took) = run(world, &name);
        if let Err(failure) = &outcome {
            println!("{failure}");
        }
        let word = if outcome.is_ok() { PASSED } else { FAILED };
        println!("{word}{}", took.as_secs_f32());
        std::io::stdout().flush().ok();
    }
    ExitCode::SUCCESS
}

/// The tests in the order in which they start: the longest come first, so that the run does not end with a
/// single long test.
fn longest_first(mut tests: Vec<&'static str>) -> VecDeque<&'static str> {
    let rank = |name: &str| LONGEST.iter().position(|part| name.contains(part));
    tests.sort_by_key(|name| rank(name).unwrap_or(LONGEST.len()));
    tests.into()
}

const READY: &str = "\u{1}ready";
const PASSED: &str = "\u{1}passed ";
const FAILED: &str = "\u{1}failed ";
/// The start of the names of tests after which the world is replaced: an engine that is killed while it
/// starts a container can leave a cgroup behind, which the next test would report as its leftover.
const SPOILS_ITS_WORLD: &str = "chaos::";
/// Parts of the names of tests that take more than 15 seconds, the slowest tests first.
const LONGEST: &[&str] = &[
    "tokens::a_thousand_and_one",
    "disconnects::of_the_engine",
    "hundreds_out_of_time",
    "chaos::",
    "exchange::",
    "slow_engine::",
    "hostile_crowd",
    "hostile::silence",
    "disconnects::of_the_client",
    "rotation::under_fire",
    "stalls::",
    "identity::merged_and_strict",
    "killed_at_random_moments",
];
