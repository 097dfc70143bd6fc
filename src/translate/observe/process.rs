//! The state of a main process, from `State` of an inspect: the table of CRI states and reasons.
//!
//! ```text
//! running, paused, restarting ─▶ Running
//! ended (FinishedAt set)      ─▶ Exited: OOMKilled | Completed | Error
//! start failed                ─▶ Exited: ContainerCannotRun, all times = creation
//! never started               ─▶ Created
//! none of these               ─▶ Unknown
//! ```

use jiff::Timestamp;

use crate::{
    model::{
        record::{ExitReason, Process},
        time::Nanos,
    },
    wire::docker::InspectState,
};

/// The process of a container that was created at `created_at`.
pub(super) fn observe(state: &InspectState, created_at: Nanos) -> Process {
    let (started_at, finished_at) = (instant(&state.started_at), instant(&state.finished_at));
    if state.running || matches!(state.status.as_str(), "running" | "paused" | "restarting") {
        return Process::Running { pid: u32::try_from(state.pid).unwrap_or(0), started_at };
    }
    if finished_at.is_set() && started_at.is_set() {
        return ended(state, started_at, finished_at);
    }
    // If the start failed, Docker leaves the container in "created" with the runtime's exit code.
    if state.exit_code != 0 || finished_at.is_set() {
        return never_ran(state, created_at);
    }
    match state.status.as_str() {
        "created" => Process::Created,
        "exited" | "dead" | "removing" => never_ran(state, created_at),
        _ => Process::Unknown,
    }
}

/// An RFC 3339 time. Docker's year 1 and unreadable times are unset.
pub(super) fn instant(text: &str) -> Nanos {
    text.parse::<Timestamp>()
        .ok()
        .and_then(|time| i64::try_from(time.as_nanosecond()).ok())
        .filter(|nanos| *nanos > 0)
        .map_or(Nanos::UNSET, Nanos)
}

fn ended(state: &InspectState, started_at: Nanos, finished_at: Nanos) -> Process {
    let reason = match state.exit_code {
        // Docker also sets it if only a child process was killed, with any exit code.
        _ if state.oom_killed => ExitReason::OomKilled,
        0 => ExitReason::Completed,
        _ => ExitReason::Error,
    };
    // Docker records the start after the runtime has returned. If the process has already
    // ended, its finish time is before that start time.
    exited(state, reason, started_at, finished_at.max(started_at))
}

fn never_ran(state: &InspectState, created_at: Nanos) -> Process {
    exited(state, ExitReason::CannotRun, created_at, created_at)
}

fn exited(
    state: &InspectState,
    reason: ExitReason,
    started_at: Nanos,
    finished_at: Nanos,
) -> Process {
    let exit_code = i32::try_from(state.exit_code).unwrap_or(i32::MAX);
    let message = state.error.clone();
    Process::Exited { started_at, finished_at, exit_code, reason, message }
}
