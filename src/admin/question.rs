//! What an operator asks a running dockbridge, and where the answer is.

use clap::Subcommand;
use http::Method;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum Question {
    /// What it knows: pods, containers, the engine, the network, as JSON
    State,
    /// What it is doing now, and for how long
    Tasks,
    /// Everything it counts and times
    Metrics,
    /// Whether it lives, and whether pods can run; fails if not
    Health,
    /// How much it logs; with a level it logs that much from now on
    LogLevel {
        /// error, warn, info, debug or trace
        level: Option<String>,
    },
}

impl Question {
    /// The requests that ask it: method, path, body.
    pub fn requests(&self) -> Vec<(Method, &'static str, String)> {
        let read = |path| (Method::GET, path, String::new());
        match self {
            Self::State => vec![read(STATE)],
            Self::Tasks => vec![read(TASKS)],
            Self::Metrics => vec![read(METRICS)],
            Self::Health => vec![read(HEALTH), read(READY)],
            Self::LogLevel { level: None } => vec![read(LOG_LEVEL)],
            Self::LogLevel { level: Some(level) } => vec![(Method::PUT, LOG_LEVEL, level.clone())],
        }
    }
}

/// Metrics, for Prometheus.
pub const METRICS: &str = "/metrics";
/// Whether the process lives.
pub const HEALTH: &str = "/healthz";
/// Whether pods can run.
pub const READY: &str = "/readyz";
/// What is known.
pub const STATE: &str = "/debug/state";
/// What is under way.
pub const TASKS: &str = "/debug/tasks";
/// The amount of the log.
pub const LOG_LEVEL: &str = "/debug/log-level";
/// The socket's name in the run directory.
pub const SOCKET: &str = "admin.sock";
