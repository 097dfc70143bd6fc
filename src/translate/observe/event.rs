//! Determines what an event of the engine has changed, and which events dockbridge ignores.

use crate::{
    model::engine::{EngineEvent, Transition},
    wire::docker::Event,
};

/// The effect of an event. `None` if dockbridge ignores the event.
pub fn observe(event: &Event) -> Option<EngineEvent> {
    let id = event.actor.id.as_str();
    match (event.kind.as_str(), event.action.as_str()) {
        ("daemon", "reload") => Some(EngineEvent::DaemonReloaded),
        ("container" | "image", _) if id.is_empty() => {
            Some(EngineEvent::Unreadable { reason: "the event names no object".to_owned() })
        }
        ("container", "destroy") => Some(EngineEvent::ContainerGone { id: id.to_owned() }),
        ("container", "kill") => {
            // For signals other than SIGKILL, only the `die` event matters.
            let is_sigkill = event.actor.attributes.get(SIGNAL).is_some_and(|sent| sent == SIGKILL);
            is_sigkill.then(|| EngineEvent::ContainerKilled { id: id.to_owned() })
        }
        ("container", "oom") => Some(EngineEvent::ContainerOom { id: id.to_owned() }),
        ("container", "create") => transition(id, Transition::Created),
        ("container", "start") => transition(id, Transition::Started),
        ("container", action) if is_irrelevant(action) => None,
        ("container", _) => Some(EngineEvent::ContainerChanged { id: id.to_owned() }),
        ("image", "push" | "save" | "prune") => None,
        ("image", _) => Some(EngineEvent::ImageChanged { name: id.to_owned() }),
        _ => None,
    }
}

fn transition(id: &str, transition: Transition) -> Option<EngineEvent> {
    Some(EngineEvent::ContainerTransition { id: id.to_owned(), transition })
}

/// Whether the action of an event leaves a container's record unchanged. An action may have details after a colon.
fn is_irrelevant(action: &str) -> bool {
    let word = action.split_once(':').map_or(action, |(word, _)| word);
    word.starts_with("exec_") || IRRELEVANT.split(' ').any(|irrelevant| irrelevant == word)
}

/// The attribute of kill events that has the signal. A container's label with this name replaces the value.
pub(super) const SIGNAL: &str = "signal";
const SIGKILL: &str = "9";
const IRRELEVANT: &str = "\
    archive-path attach commit copy detach export extract-to-dir health_status prune resize top";
