//! The stories: end-to-end tests with pods of a dockbridge process and a real engine.
//!
//! With `--engine NAME` up to `--jobs` stories run at the same time, each alone in a world (see `runner`). Inside a
//! world (`tests/env/world.sh -- cargo test --test stories`) the stories run one after the other. Without `--engine`
//! and outside of a world, the stories are skipped. Only one story at a time runs in a world, because stories search
//! for leftovers, and a running pod of another story would look like a leftover. Arguments that are not flags are parts
//! of the names of stories, as with Rust's test harness.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking and reports by printing"
)]

mod admin;
mod cdi;
mod chaos;
mod checkpoints;
mod clients;
mod conflicts;
mod containerd;
mod crashes;
mod devices;
mod events;
mod exchange;
mod execs;
mod gpu_nodes;
mod handlers;
mod identity;
mod images;
mod largest;
mod layers;
mod logs;
mod machine;
mod many;
mod metrics;
mod mounts;
#[path = "../it/support/nri_plugin.rs"]
mod nri_plugin;
mod oci_edits;
#[path = "../it/support/old_client.rs"]
mod old_client;
mod oom;
mod pinned_images;
mod plugins;
mod pod_checkpoints;
mod pods;
mod port_forward;
mod power;
mod pulls;
mod resources;
mod restarts;
mod restores;
mod runner;
mod security;
mod servers;
mod service;
mod setup;
mod shortages;
mod signals;
mod silence;
#[path = "../skips/mod.rs"]
mod skips;
mod slow_engine;
mod slow_starts;
mod stalls;
mod stats;
mod streams;
mod support;
mod takeover;
mod user_namespaces;
mod volumes;

use std::{
    num::NonZeroUsize,
    pin::Pin,
    process::ExitCode,
    time::{Duration, Instant},
};

use support::{
    failure::{Failure, Outcome},
    patience::patient,
    stage,
    stated::is_full_size,
    world::World,
};

type Story = fn(World) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;

macro_rules! stories {
    ($($path:path),+ $(,)?) => {
        &[$((stringify!($path), (|world| Box::pin($path(world))) as Story)),+]
    };
}

const STORIES: &[(&str, Story)] = stories![
    pods::on_cni,
    pods::that_talk_to_each_other,
    pods::on_the_engines_network,
    pods::on_the_hosts_network,
    pods::with_one_process_table,
    pods::with_names_and_dns,
    pods::asked_twice,
    pods::created_twice,
    largest::that_kubelet_makes,
    largest::that_others_made,
    images::from_a_private_registry,
    images::with_a_password_in_their_names,
    images::in_use_by_a_foreign_container,
    images::as_the_parent_of_another,
    images::tagged_like_an_id,
    images::the_pause,
    images::by_digest_by_tag_and_both,
    images::removed_by_many,
    images::of_a_user,
    images::on_their_disk,
    pulls::of_one_image_by_many,
    pulls::from_a_stuck_registry,
    pulls::with_every_credential,
    pulls::of_a_guarded_pause,
    identity::merged_and_strict,
    identity::in_odd_images,
    identity::accounts_are_no_files,
    identity::unknown_to_the_image,
    identity::looked_up_without_a_trace,
    pinned_images::what_is_pinned,
    pinned_images::used_by_a_foreign_container,
    pinned_images::what_kubelet_did_not_pull,
    many::thirty_at_once,
    many::reads_cost_the_engine_nothing,
    many::writes_are_read_at_once,
    clients::of_every_kind_at_once,
    conflicts::held_by_an_exited_one,
    conflicts::held_by_a_created_one,
    conflicts::held_by_a_running_one,
    conflicts::held_by_a_foreign_container,
    restarts::between_any_two_calls,
    restarts::of_the_engine,
    restarts::without_the_state,
    takeover::of_living_pods,
    takeover::stopped_at_once,
    servers::refused_whatever_they_share,
    servers::killed_and_followed_at_once,
    servers::refused_when_the_engine_comes,
    servers::found_by_the_check,
    crashes::sandbox_killed,
    crashes::sandbox_removed,
    crashes::sandbox_restarted,
    crashes::at_random_moments,
    containerd::has_a_task_left,
    containerd::is_killed,
    containerd::loses_a_shim,
    exchange::with_live_restore,
    exchange::without_live_restore,
    exchange::on_the_engines_network,
    exchange::cut_off,
    exchange::with_dockbridge,
    exchange::image_store::switched,
    slow_engine::first_answers_are_true,
    slow_engine::what_hangs_is_listed,
    slow_engine::others::live_on,
    events::of_whole_lives,
    events::of_many_ends,
    execs::exact,
    execs::a_child_holds_the_output,
    execs::out_of_time,
    execs::the_caller_leaves,
    execs::dockbridge_is_stopped,
    execs::dockbridge_is_killed,
    execs::the_engine_is_killed,
    execs::hundreds_out_of_time,
    stalls::of_the_engine,
    stalls::at_the_end_of_commands,
    stalls::of_containerd,
    stalls::over_a_crash,
    silence::of_processes,
    silence::of_answers,
    streams::exec::in_every_way,
    streams::exec::half_closed,
    streams::exec::two_outputs,
    streams::exec::a_terminal,
    streams::exec::that_cannot_start,
    streams::exec::with_a_child_that_stays,
    streams::bulk::a_hundred_megabytes,
    streams::bulk::a_slow_reader,
    streams::bulk::a_deaf_process,
    streams::attach::to_a_shell,
    streams::attach::left_and_taken_up_again,
    streams::attach::left_for_good,
    streams::attach::to_a_terminal,
    streams::attach::until_it_ends,
    streams::disconnects::of_the_client,
    streams::disconnects::of_the_container,
    streams::disconnects::of_dockbridge,
    streams::disconnects::of_the_engine,
    streams::tokens::wrong_requests,
    streams::tokens::used_once,
    streams::tokens::negotiated,
    streams::tokens::a_thousand_and_one,
    streams::hostile::bytes,
    streams::hostile::silence,
    streams::hostile_crowd::fills_the_places,
    port_forward::to_a_pod,
    port_forward::on_the_engines_network,
    port_forward::on_the_hosts_network,
    port_forward::to_the_other_loopback,
    port_forward::refused,
    port_forward::wrong_requests,
    port_forward::many_at_once,
    port_forward::a_hundred_megabytes,
    port_forward::a_slow_reader,
    port_forward::partings,
    port_forward::of_dockbridge,
    logs::forms::as_they_come,
    logs::forms::with_another_driver,
    logs::forms::with_the_daemons_options,
    logs::forms::as_links,
    logs::rotation::by_the_kubelet,
    logs::rotation::under_fire,
    logs::rotation::truncated_by_somebody,
    cdi::read_here,
    cdi::read_by_the_engine,
    volumes::read_run_and_not_written,
    volumes::refused,
    volumes::after_a_crash,
    volumes::killed_at_random_moments,
    oom::of_the_main_process,
    oom::of_a_child,
    oom::of_an_earlier_run,
    oom::of_nobody,
    oom::beside_labels_named_like_attributes,
    stats::of_a_container,
    stats::of_its_layer,
    layers::of_every_shape,
    layers::of_mapped_users,
    stats::of_a_pod,
    stats::of_a_pod_beside_foreign_containers,
    stats::while_they_end,
    stats::cost_the_engine_nothing,
    shortages::of_memory,
    shortages::of_descriptors,
    shortages::of_processors_and_disks,
    metrics::of_a_pod,
    metrics::of_what_limits_it,
    metrics::before_there_is_any_pod,
    metrics::lists_in_portions,
    metrics::cost_the_engine_nothing,
    admin::shows_what_happens,
    security::by_seccomp,
    security::of_the_pause_under_a_taken_name,
    security::with_an_unconfined_daemon,
    security::by_capabilities,
    security::by_privileges,
    security::of_the_privileged,
    security::refused,
    security::by_an_impostor,
    mounts::propagated,
    mounts::read_only,
    mounts::of_every_source,
    mounts::impossible,
    oci_edits::arrive,
    plugins::told_of_whole_lives,
    plugins::that_change_containers,
    plugins::that_ask_for_the_impossible,
    plugins::that_were_asked_at_a_crash,
    plugins::that_outlive_nobody,
    plugins::that_refuse,
    plugins::that_hang,
    user_namespaces::of_a_pod,
    user_namespaces::with_the_hosts_network,
    user_namespaces::without_devices_of_an_image,
    user_namespaces::whatever_is_killed,
    user_namespaces::killed_at_random_moments,
    setup::undone_under_a_pod,
    setup::without_its_program,
    setup::of_wrong_files,
    devices::granted,
    devices::refused,
    handlers::of_the_engine,
    gpu_nodes::chain_runtimes,
    gpu_nodes::without_setup,
    gpu_nodes::devices_of_plugins,
    signals::to_stop,
    resources::changed_while_it_runs,
    resources::too_small,
    resources::changed_before_it_runs,
    resources::impossible,
    resources::beyond_the_engine,
    resources::a_crash_in_the_middle,
    resources::of_a_pod,
    checkpoints::of_a_counter,
    checkpoints::refused,
    checkpoints::held_up,
    checkpoints::on_a_full_disk,
    checkpoints::over_crashes,
    restores::of_a_counter,
    restores::of_more_than_allowed,
    restores::refused,
    restores::with_a_filter,
    restores::of_an_image,
    restores::of_open_files,
    restores::with_a_plugin,
    restores::of_another_user,
    restores::that_is_stopped,
    restores::that_hangs,
    restores::over_crashes,
    slow_starts::continue_after_it,
    pod_checkpoints::count_on_together,
    pod_checkpoints::of_a_killed_dockbridge,
    machine::keeps_pods_in_slices,
    machine::confines_with_apparmor,
    machine::enforces_a_profile_of_its_own,
    machine::swap_is_limited_as_requested,
    machine::labels_with_selinux,
    service::kept_by_systemd,
    // The chaos stories are the last, because an engine that is killed while it starts a container can leave cgroups,
    // which other stories would report as their leftovers.
    chaos::tells_plugins,
    chaos::loses_nothing,
];

const HELP: &str = "\
Runs end-to-end tests. As root: make test-stories ENGINE=… STORY=… JOBS=…

usage: stories [--list] [--exact] [--skip PART] [--engine NAME [--runtime PROGRAM] [--jobs N]] [PART…]

PART       a part of a test's name; with --exact the whole name
--engine   start worlds with this engine (see tests/env/world.sh --help); without it the tests
           run in the world around this program, and are left out if there is none
--runtime  the program that the engine gets as its runtime dockbridge
--jobs     how many worlds at once; 1 if not given";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == gpu_nodes::STAND_IN) {
        return gpu_nodes::stand_in(&words);
    }
    let asked = Asked::from_arguments(words.into_iter());
    if asked.help {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<_> = STORIES.iter().filter(|(name, _)| asked.wants(name)).collect();
    if asked.list {
        chosen.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    if let Some(notes) = asked.plugin {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let ended = runtime.block_on(chaos::nri::be_started(notes.as_ref()));
        return if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let world = World::find();
    if world.is_none() && asked.engine.is_none() {
        // `cargo test NAME` runs all test programs, so this one may get the name of a unit test.
        if !chosen.is_empty() {
            skips::skip(skips::Lack::World);
            println!("{} tests left out: make test-stories runs them", chosen.len());
        }
        return ExitCode::SUCCESS;
    }
    let unknown = asked.unknown();
    if !unknown.is_empty() {
        println!("no test has {unknown:?} in its name; --list shows all");
        return ExitCode::FAILURE;
    }
    if let Some(engine) = asked.engine {
        let jobs = asked.jobs.as_deref().unwrap_or("1");
        let Ok(jobs) = jobs.parse::<NonZeroUsize>() else {
            println!("JOBS (--jobs) must be a number from 1, not {jobs:?}");
            return ExitCode::FAILURE;
        };
        let engine = runner::WorldEngine { name: engine, runtime: asked.runtime.map(Into::into) };
        let names = chosen.iter().map(|(name, _)| *name).collect();
        return runner::run(&engine, jobs.get(), names);
    }
    let Some(world) = world else { return ExitCode::FAILURE };
    if let Some(until) = asked.power {
        return between_cuts(&world, &until);
    }
    if asked.worker {
        return runner::work(&world, run_named);
    }
    run_in_order(&world, &chosen)
}

fn run_in_order(world: &World, chosen: &[&(&'static str, Story)]) -> ExitCode {
    println!("running {} tests on engine {}", chosen.len(), world.engine);
    let mut failed = Vec::new();
    for (name, story) in chosen {
        let (outcome, took) = run(world, name, *story);
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {word} ({:.1} s)", took.as_secs_f32());
        if let Err(failure) = outcome {
            println!("{failure}");
            failed.push((name, failure));
        }
    }
    // Failures are printed again at the end, where readers of a long log look first.
    failed.iter().for_each(|(name, Failure(why))| println!("failed: {name}: {why}"));
    let (word, passed) =
        (if failed.is_empty() { "ok" } else { "FAILED" }, chosen.len() - failed.len());
    println!("test result: {word}. {passed} passed; {} failed", failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_named(world: &World, name: &str) -> (Outcome, Duration) {
    match STORIES.iter().find(|(known, _)| *known == name) {
        Some((name, story)) => run(world, name, *story),
        None => (Err(Failure(format!("no test is named {name}"))), Duration::ZERO),
    }
}

/// Runs what the story of power cuts does between two cuts, in the virtual machine of `tests/env/power.sh`.
fn between_cuts(world: &World, until: &str) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    match runtime.block_on(power::between_cuts(world.clone(), until == "live")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("power: FAILED: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one test in its own tokio runtime, and returns its result and its duration.
fn run(world: &World, name: &str, story: Story) -> (Outcome, Duration) {
    let begun = Instant::now();
    let patience = patient(match name.split("::").next() {
        Some("slow_engine") => slow_engine::size::Size::stated().patience(),
        Some("chaos") => chaos::size::Size::stated().patience(),
        Some("exchange") if is_full_size() => exchange::FULL_SIZE_PATIENCE,
        Some("largest") if is_full_size() => largest::FULL_SIZE_PATIENCE,
        Some("pod_checkpoints") if is_full_size() => pod_checkpoints::FULL_SIZE_PATIENCE,
        _ => stage::PATIENCE,
    });
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let outcome = runtime.block_on(async {
        let mut task = tokio::spawn(story(world.clone()));
        let outcome = match tokio::time::timeout(patience, &mut task).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => Err(Failure(panic.to_string())),
            Err(_late) => {
                task.abort();
                tokio::time::timeout(LAST_WORK, task).await.ok();
                Err(Failure(format!("not done within {patience:?}")))
            }
        };
        if outcome.is_err() {
            // An engine that does not answer must not hold up the other tests.
            tokio::time::timeout(patient(SWEEP), stage::sweep(world)).await.ok();
        }
        outcome
    });
    // A thread that a test blocks forever delays this shutdown by `LAST_WORK` at most.
    runtime.shutdown_timeout(LAST_WORK);
    (outcome, begun.elapsed())
}

/// How long to wait for an aborted test, which ends at its next await, and for threads that a test leaves running.
const LAST_WORK: Duration = Duration::from_secs(20);

/// How long cleaning up after a failed test may take.
const SWEEP: Duration = Duration::from_secs(120);

/// The parsed command line.
#[derive(Default)]
struct Asked {
    help: bool,
    list: bool,
    exact: bool,
    names: Vec<String>,
    skip: Vec<String>,
    /// The argument of the story of power cuts: `live` or `rest`.
    power: Option<String>,
    /// The directory for the records of calls, if this program runs as an NRI plugin.
    plugin: Option<String>,
    /// The engine of the worlds that this program starts.
    engine: Option<String>,
    /// The program that the worlds' engines get as the runtime `dockbridge`.
    runtime: Option<String>,
    /// The number of concurrent worlds, 1 by default.
    jobs: Option<String>,
    /// Whether this program is a worker, which reads the names of stories from standard input.
    worker: bool,
}

impl Asked {
    fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut asked = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--help" | "-h" => asked.help = true,
                "--list" => asked.list = true,
                "--exact" => asked.exact = true,
                "--power" => asked.power = arguments.next(),
                "--engine" => asked.engine = arguments.next(),
                "--runtime" => asked.runtime = arguments.next(),
                "--jobs" => asked.jobs = arguments.next(),
                "--worker" => asked.worker = true,
                chaos::nri::PLUGIN => asked.plugin = arguments.next(),
                "--skip" => asked.skip.extend(arguments.next()),
                "--format" | "--test-threads" | "--color" | "--logfile" => drop(arguments.next()),
                // Other flags of Rust's test harness have no effect in this program.
                flag if flag.starts_with('-') => {}
                name => asked.names.push(name.to_owned()),
            }
        }
        asked
    }

    fn wants(&self, story: &str) -> bool {
        let hit = |name: &String| self.hits(name, story);
        (self.names.is_empty() || self.names.iter().any(hit)) && !self.skip.iter().any(hit)
    }

    /// The given names that match no story, which are an error. Otherwise a run without any story would look
    /// like a success.
    fn unknown(&self) -> Vec<&str> {
        let exists = |name: &str| STORIES.iter().any(|(story, _)| self.hits(name, story));
        self.names.iter().map(String::as_str).filter(|name| !exists(name)).collect()
    }

    fn hits(&self, name: &str, story: &str) -> bool {
        if self.exact { story == name } else { story.contains(name) }
    }
}
