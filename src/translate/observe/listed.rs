//! Makes a record from an entry of the engine's list, for use until the engine has answered the inspect.
//!
//! [`container::observe`] reads the entry like an inspect, but a renamed container becomes foreign. Data that a list
//! does not have stays empty, for example all times except the creation time (in whole seconds).

use super::container;
use crate::{
    model::{
        record::{ContainerRecord, ImageRecord, ListedState, Observed, Process, SandboxRecord},
        time::Nanos,
    },
    wire::docker::{
        ContainerInspect, ImageInspect, InspectConfig, InspectHostConfig,
        summary::{ContainerSummary, ImageSummary},
    },
};

/// Determines what a listed container is, from the data of its entry.
pub fn observe(entry: ContainerSummary) -> Observed {
    let created_at = Nanos(entry.created.saturating_mul(NANOS_PER_SECOND).max(0));
    let process = process(&entry.state, &entry.status);
    let inspect = ContainerInspect {
        name: own_name(&entry.names),
        id: entry.id,
        image: entry.image_id,
        config: InspectConfig {
            image: entry.image,
            labels: entry.labels,
            ..InspectConfig::default()
        },
        // Docker's list does not have `Init`, so the container's name must match its document instead.
        host_config: InspectHostConfig { init: Some(false), ..entry.host_config },
        network_settings: entry.network_settings,
        mounts: entry.mounts,
        ..ContainerInspect::default()
    };
    let observed = container::observe(&inspect);
    match observed {
        _ if !container::has_its_name(&observed) => container::foreign(&inspect),
        Observed::Sandbox(record) => {
            Observed::Sandbox(SandboxRecord { created_at, process: Some(process), ..record })
        }
        Observed::Container(record) => {
            Observed::Container(ContainerRecord { created_at, process, ..record })
        }
        Observed::Foreign(image) => Observed::Foreign(image),
    }
}

/// The record of a listed image. `None` if the engine reports no usable id.
pub fn observe_image(entry: ImageSummary) -> Option<ImageRecord> {
    let inspect = ImageInspect {
        id: entry.id,
        repo_tags: entry.repo_tags,
        repo_digests: entry.repo_digests,
        size: entry.size,
        ..ImageInspect::default()
    };
    let record = super::image::observe(&inspect)?;
    Some(ImageRecord { labels: entry.labels, inspected: false, ..record })
}

fn process(state: &str, status: &str) -> Process {
    Process::Listed(match state {
        "created" => ListedState::Created,
        "running" | "paused" | "restarting" => ListedState::Running,
        "exited" | "dead" | "removing" => ListedState::Exited { exit_code: exit_code(status) },
        _ => match status.split(' ').next().unwrap_or_default() {
            "Created" => ListedState::Created,
            "Up" | "Restarting" => ListedState::Running,
            "Exited" => ListedState::Exited { exit_code: exit_code(status) },
            _ => return Process::Unknown,
        },
    })
}

/// The exit code in a status text: 137 for `Exited (137) 2 minutes ago`.
fn exit_code(status: &str) -> Option<i32> {
    let (code, _) = status.strip_prefix("Exited (")?.split_once(')')?;
    code.parse().ok()
}

/// The container's own name. Names that it has in links of other containers have the form `/other/alias`.
fn own_name(names: &[String]) -> String {
    let own = names.iter().find(|name| !name.trim_start_matches('/').contains('/'));
    own.or(names.first()).cloned().unwrap_or_default()
}

const NANOS_PER_SECOND: i64 = 1_000_000_000;
