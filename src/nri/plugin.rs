//! A connected plugin, and how dockbridge calls it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use prost::Message;
use thiserror::Error;
use tracing::warn;

use super::{
    connection::{CallError, CloseReason, Connection},
    metrics::NriMetrics,
    ttrpc::{UNIMPLEMENTED, UNKNOWN},
};
use crate::{
    error::{Kind, WithKind, shortened},
    wire::nri::{self, Event},
};

/// A registered plugin.
#[derive(Debug)]
pub(super) struct Plugin {
    /// Two digits. dockbridge asks plugins in the order of their indices.
    pub(super) index: String,
    pub(super) name: String,
    /// The events to which the plugin subscribed, one bit for each event.
    pub(super) events: i32,
    pub(super) connection: Connection,
    /// How long the plugin may take to answer an event.
    pub(super) limit: Duration,
    pub(super) metrics: NriMetrics,
}

/// The subject of an event: a pod, or a container with its pod.
#[derive(Clone, Debug, Default)]
pub(super) struct EventSubject {
    pub(super) pod: Option<nri::PodSandbox>,
    pub(super) container: Option<nri::Container>,
}

/// The error with which a plugin answered a call, or the reason why dockbridge treats a call as refused.
#[derive(Clone, Debug, Error)]
#[error("NRI plugin {plugin}, {call}: {message}")]
pub(super) struct Refusal {
    plugin: String,
    call: &'static str,
    code: i32,
    pub(super) message: String,
}

impl WithKind for Refusal {
    fn kind(&self) -> Kind {
        Kind::Unknown
    }
}

impl Refusal {
    /// Logs the error of a call about an event that plugins cannot refuse.
    pub(super) fn log(&self) {
        let Self { plugin, call, message, .. } = self;
        warn!(
            plugin,
            call,
            error = message,
            "a call to an NRI plugin failed, but plugins cannot reject this event; continuing"
        );
    }
}

impl Plugin {
    pub(super) fn full_name(&self) -> String {
        format!("{}-{}", self.index, self.name)
    }

    pub(super) fn wants(&self, event: Event) -> bool {
        self.events & bit(event) != 0 && !self.connection.is_closed()
    }

    /// Sends the plugin an event. `None` if it has not subscribed to the event, or for a missing or invalid answer.
    pub(super) async fn ask<A: Message + Default>(
        &self,
        event: Event,
        message: &impl Message,
    ) -> Result<Option<A>, Refusal> {
        if !self.wants(event) {
            return Ok(None);
        }
        self.call(method(event), message, self.limit).await
    }

    /// Sends an event without a result. Plugins before NRI 0.12 have a single method for all events without a result.
    pub(super) async fn tell(&self, event: Event, subject: &EventSubject) -> Result<(), Refusal> {
        let EventSubject { pod, container } = subject.clone();
        // The request of each event without a result has the pod in field 1, and the container, if any, in field 2.
        let request = nri::StartContainerRequest { pod, container };
        let mut told: Result<Option<nri::Empty>, Refusal> = self.ask(event, &request).await;
        if told.as_ref().is_err_and(|refusal| refusal.code == UNIMPLEMENTED) {
            let nri::StartContainerRequest { pod, container } = request;
            let change = nri::StateChangeEvent { event: event.into(), pod, container };
            told = self.call("StateChange", &change, self.limit).await;
        }
        told.map(drop)
    }

    /// Calls a method of the plugin. Returns `None` if the connection closed before a valid answer.
    pub(super) async fn call<A: Message + Default>(
        &self,
        method: &'static str,
        message: &impl Message,
        limit: Duration,
    ) -> Result<Option<A>, Refusal> {
        let began = Instant::now();
        let answered = self.connection.call(method, message, limit).await;
        self.metrics.called(&self.full_name(), method, began.elapsed(), answered.is_ok());
        match answered {
            Ok(answer) => Ok(Some(answer)),
            Err(CallError::Refused { code, message }) => {
                Err(Refusal { code, ..self.refusal(method, message) })
            }
            Err(CallError::Closed(reason)) => {
                // The plugin's session logs every other failure, and the end of the connection.
                if reason == CloseReason::ByPlugin {
                    let plugin = self.full_name();
                    warn!(
                        plugin,
                        call = method,
                        "an NRI plugin disconnected before it answered a call"
                    );
                }
                Ok(None)
            }
        }
    }

    pub(super) fn refusal(&self, call: &'static str, message: String) -> Refusal {
        Refusal { plugin: self.full_name(), call, code: UNKNOWN, message }
    }
}

/// Sorts plugins into the order in which dockbridge asks them.
pub(super) fn sort(plugins: &mut [Arc<Plugin>]) {
    plugins.sort_by(|one, other| one.index.cmp(&other.index));
}

/// The bit that stands for an event in a subscription.
pub(super) const fn bit(event: Event) -> i32 {
    1 << (event as i32 - 1)
}

pub(super) const ALL_EVENTS: i32 = bit(Event::Last) - 1;

/// Name of the plugin's method that dockbridge calls for an event.
pub(super) const fn method(event: Event) -> &'static str {
    match event {
        Event::RunPodSandbox => "RunPodSandbox",
        Event::UpdatePodSandbox => "UpdatePodSandbox",
        Event::PostUpdatePodSandbox => "PostUpdatePodSandbox",
        Event::StopPodSandbox => "StopPodSandbox",
        Event::RemovePodSandbox => "RemovePodSandbox",
        Event::CreateContainer => "CreateContainer",
        Event::PostCreateContainer => "PostCreateContainer",
        Event::StartContainer => "StartContainer",
        Event::PostStartContainer => "PostStartContainer",
        Event::UpdateContainer => "UpdateContainer",
        Event::PostUpdateContainer => "PostUpdateContainer",
        Event::StopContainer => "StopContainer",
        Event::RemoveContainer => "RemoveContainer",
        Event::ValidateContainerAdjustment => "ValidateContainerAdjustment",
        Event::Unknown | Event::Last => "StateChange",
    }
}

/// The value of the metrics' label for the reason why a connection ended.
pub(super) const fn label(reason: &CloseReason) -> &'static str {
    match reason {
        CloseReason::ByPlugin => "closed",
        CloseReason::Socket(_) => "socket",
        CloseReason::Protocol(_) => "protocol_error",
        CloseReason::TooManyRequests => "too_many_requests",
        CloseReason::Timeout { .. } => "timeout",
        CloseReason::Violation(_) => "violation",
        CloseReason::NotReady => "not_ready",
        CloseReason::Shutdown => "shutdown",
    }
}

/// Checks a plugin's index and name, which come from its registration or its file name.
pub(super) fn check_name(index: &str, name: &str) -> Result<(), String> {
    let is_index = index.len() == 2 && index.bytes().all(|byte| byte.is_ascii_digit());
    if !is_index {
        return Err(shortened(format!("the plugin's index is not two digits: {index:?}")));
    }
    let permitted = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(permitted) {
        return Err(format!(
            "the plugin's name must have 1 to {LONGEST_NAME} characters, and only ASCII letters, digits and -_.+"
        ));
    }
    Ok(())
}

const LONGEST_NAME: usize = 128;
