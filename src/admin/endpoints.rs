//! The subcommands of `dockbridge debug`, and the paths of the admin server.

use clap::Subcommand;

/// A subcommand of `dockbridge debug`.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum DebugCommand {
    /// Print the state as JSON: pods, containers, the engine, the network
    State,
    /// Print running operations with their age
    Tasks,
    /// Print all metrics
    Metrics,
    /// Say whether dockbridge is alive and whether pods can run; exits with 1 if not
    Health,
}

/// The path of metrics in the text format of OpenMetrics.
pub const METRICS: &str = "/metrics";
/// The path that tells whether the process is alive.
pub const HEALTH: &str = "/healthz";
/// The path that tells whether pods can run.
pub const READY: &str = "/readyz";
/// The path of the state dump.
pub const STATE: &str = "/debug/state";
/// The path of the list of running operations.
pub const TASKS: &str = "/debug/tasks";
/// The path of a request to read the settings again. Its body may be a JSON object of environment variables.
pub const RELOAD: &str = "/config/reload";
/// The path that shows what a reload would change. The request's body is the same as that of a reload.
pub const DIFF: &str = "/config/diff";
/// The name of the socket in the run directory.
pub const SOCKET: &str = "admin.sock";
