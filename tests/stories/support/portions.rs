//! Makes the CRI's streaming list calls and reads all messages of the answers.

use dockbridge::wire::cri::{self, items};
use tonic::{Response, Status, Streaming};

use super::cri::{Answer, Cri, Refused};

impl Cri {
    /// Calls StreamPodSandboxMetrics, and returns the items of each message.
    pub(crate) async fn streamed_metrics(&self) -> Answer<Vec<Vec<cri::PodSandboxMetrics>>> {
        let request = cri::StreamPodSandboxMetricsRequest {};
        let stream = self.runtime.clone().stream_pod_sandbox_metrics(request).await;
        portions(stream, |portion| portion.pod_sandbox_metrics)
            .await
            .map_err(Refused::of("stream_pod_sandbox_metrics"))
    }

    /// Calls StreamPodSandboxes, and returns the items of each message.
    pub(crate) async fn streamed_sandboxes(
        &self,
        filter: Option<cri::PodSandboxFilter>,
    ) -> Answer<Vec<Vec<cri::PodSandbox>>> {
        let request = cri::StreamPodSandboxesRequest { filter };
        let stream = self.runtime.clone().stream_pod_sandboxes(request).await;
        portions(stream, |portion| items(portion.pod_sandboxes).expect("items"))
            .await
            .map_err(Refused::of("stream_pod_sandboxes"))
    }

    /// Calls StreamContainers, and returns the items of each message.
    pub(crate) async fn streamed_containers(
        &self,
        filter: Option<cri::ContainerFilter>,
    ) -> Answer<Vec<Vec<cri::Container>>> {
        let request = cri::StreamContainersRequest { filter };
        let stream = self.runtime.clone().stream_containers(request).await;
        portions(stream, |portion| items(portion.containers).expect("items"))
            .await
            .map_err(Refused::of("stream_containers"))
    }

    /// Calls StreamContainerStats, and returns the items of each message.
    pub(crate) async fn streamed_stats(
        &self,
        filter: Option<cri::ContainerStatsFilter>,
    ) -> Answer<Vec<Vec<cri::ContainerStats>>> {
        let request = cri::StreamContainerStatsRequest { filter };
        let stream = self.runtime.clone().stream_container_stats(request).await;
        portions(stream, |portion| portion.container_stats)
            .await
            .map_err(Refused::of("stream_container_stats"))
    }

    /// Calls StreamPodSandboxStats, and returns the items of each message.
    pub(crate) async fn streamed_pod_stats(
        &self,
        filter: Option<cri::PodSandboxStatsFilter>,
    ) -> Answer<Vec<Vec<cri::PodSandboxStats>>> {
        let request = cri::StreamPodSandboxStatsRequest { filter };
        let stream = self.runtime.clone().stream_pod_sandbox_stats(request).await;
        portions(stream, |portion| portion.pod_sandbox_stats)
            .await
            .map_err(Refused::of("stream_pod_sandbox_stats"))
    }

    /// Calls StreamImages, and returns the items of each message.
    pub(crate) async fn streamed_images(
        &self,
        filter: Option<cri::ImageFilter>,
    ) -> Answer<Vec<Vec<cri::Image>>> {
        let stream = self.images.clone().stream_images(cri::StreamImagesRequest { filter }).await;
        portions(stream, |portion| portion.images).await.map_err(Refused::of("stream_images"))
    }
}

/// Reads all messages of an answer, or returns the call's error.
async fn portions<R, T>(
    answer: Result<Response<Streaming<R>>, Status>,
    items: fn(R) -> Vec<T>,
) -> Result<Vec<Vec<T>>, Status> {
    let (mut stream, mut all) = (answer?.into_inner(), Vec::new());
    while let Some(portion) = stream.message().await? {
        all.push(items(portion));
    }
    Ok(all)
}
