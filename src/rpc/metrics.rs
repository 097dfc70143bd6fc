//! The metrics of CRI calls and of clients that listen to container events.

use std::fmt::Display;

use tonic::Code;

use crate::{
    engine::metrics::EngineMetrics,
    telemetry::{
        in_progress::{InProgress, InProgressGuard},
        metric::{Family, Gauge, Histogram, Timer},
        registry::{RegisterMetrics, Registry},
    },
};

/// All clones of `RpcMetrics` share the counts.
#[derive(Clone, Debug, Default)]
pub struct RpcMetrics {
    answered: Family<Histogram, 2>,
    in_progress: InProgress,
    pub(super) listeners: Gauge,
    /// Has the running Docker calls: the error of a CRI call that misses its deadline names one of them.
    pub(super) engine: EngineMetrics,
}

impl RpcMetrics {
    /// Creates the metrics of CRI calls. `engine` has the metrics of Docker calls.
    pub fn with_engine(engine: &EngineMetrics) -> Self {
        Self { engine: engine.clone(), ..Self::default() }
    }

    /// Starts the timer of a call, and lists the call as running. Other names than those of CRI methods count as
    /// `unknown`. The timer stops when dockbridge answers or starts to stream, or when the caller disconnects.
    pub(super) fn begin(&self, name: &str) -> (Timer<2>, InProgressGuard) {
        let method = known(name);
        let timer = self.answered.start_timer([method, word(Code::Cancelled)]);
        (timer, self.in_progress.begin("rpc", method))
    }
}

impl RegisterMetrics for RpcMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register_family(
            "dockbridge_cri_request_duration_seconds",
            &["method", "code"],
            "Duration of CRI calls: until the answer, the beginning of the stream, or the caller's cancellation",
            &self.answered,
        );
        registry.register(
            "dockbridge_container_event_subscribers",
            "Clients subscribed to container events (GetContainerEvents)",
            &self.listeners,
        );
        registry.register_in_progress(&self.in_progress);
    }
}

tokio::task_local! {
    /// The CRI call that the current task handles.
    pub(super) static CALL: InProgressGuard;
}

/// Records the pod, container or image of the current task's call, for the list of running calls.
pub(super) fn note(subject: impl Display) {
    // `try_with` fails if a test calls a method directly, without a CRI call.
    let _ = CALL.try_with(|call| call.about(subject));
}

fn known(name: &str) -> &'static str {
    METHODS.split(' ').find(|known| *known == name).unwrap_or(UNKNOWN)
}

pub(super) fn word(code: Code) -> &'static str {
    CODES.split(' ').nth(code as usize).unwrap_or(UNKNOWN)
}

/// The methods of both CRI services.
const METHODS: &str = "\
    Version RunPodSandbox StopPodSandbox RemovePodSandbox PodSandboxStatus ListPodSandbox \
    StreamPodSandboxes CreateContainer StartContainer StopContainer RemoveContainer ListContainers \
    StreamContainers ContainerStatus UpdateContainerResources ReopenContainerLog ExecSync Exec \
    Attach PortForward ContainerStats ListContainerStats StreamContainerStats PodSandboxStats \
    ListPodSandboxStats StreamPodSandboxStats UpdateRuntimeConfig Status CheckpointContainer \
    CheckpointPod RestorePod GetContainerEvents ListMetricDescriptors ListPodSandboxMetrics \
    StreamPodSandboxMetrics RuntimeConfig UpdatePodSandboxResources ListImages StreamImages \
    ImageStatus PullImage RemoveImage ImageFsInfo";
/// Names of the gRPC codes, in the order of their numbers.
const CODES: &str = "\
    OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS \
    PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED \
    INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED";
const UNKNOWN: &str = "unknown";

#[cfg(test)]
mod tests {
    use super::{METHODS, known};

    #[test]
    fn every_method_of_the_interface_is_counted_by_its_name() {
        let interface = include_str!("../../proto/api.proto");
        let named = interface.lines().filter_map(|line| line.trim().strip_prefix("rpc "));
        let named: Vec<&str> = named.filter_map(|rest| rest.split('(').next()).collect();
        assert_eq!(named.join(" "), METHODS);
    }

    #[test]
    fn a_client_makes_no_names() {
        assert_eq!(known("Version"), "Version");
        assert_eq!(known("Version2"), "unknown");
    }
}
