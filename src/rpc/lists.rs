//! The items of each list, so that a list in one message and a streamed list return the same items.
//!
//! The items of ListPodSandbox and ListContainers come from [`super::encoded_lists`].

use std::sync::Arc;

use prost::bytes::Bytes;
use tonic::Status;

use super::{image::ImageRpc, runtime::RuntimeRpc};
use crate::{
    model::{
        record::{ContainerRecord, SandboxRecord},
        stats::Detail,
    },
    translate::{
        parse,
        render::{
            self,
            filter::{lists_container, lists_sandbox, measures_container, measures_sandbox},
        },
    },
    wire::cri,
};

impl RuntimeRpc {
    pub(super) async fn listed_sandboxes(
        &self,
        filter: Option<&cri::PodSandboxFilter>,
    ) -> Result<Vec<Bytes>, Status> {
        let now = self.now().await?;
        let encode = |pod: &SandboxRecord| cri::encoded(&render::sandbox::item(pod));
        let all = self.encoded.sandboxes.of(now.sandboxes(), encode);
        let requested = all.iter().filter(|item| lists_sandbox(filter, &item.record));
        Ok(requested.map(|item| item.message.clone()).collect())
    }

    pub(super) async fn listed_containers(
        &self,
        filter: Option<&cri::ContainerFilter>,
    ) -> Result<Vec<Bytes>, Status> {
        let now = self.now().await?;
        let encode = |one: &ContainerRecord| cri::encoded(&render::container::item(one));
        let all = self.encoded.containers.of(now.containers(), encode);
        let requested = all.iter().filter(|item| lists_container(filter, &item.record));
        Ok(requested.map(|item| item.message.clone()).collect())
    }

    pub(super) async fn listed_container_stats(
        &self,
        filter: Option<&cri::ContainerStatsFilter>,
    ) -> Result<impl Iterator<Item = cri::ContainerStats> + Send + use<>, Status> {
        let now = self.measurable().await?;
        let is_requested = |record: &ContainerRecord| measures_container(filter, record);
        let read = self.stats.containers(&now, is_requested, Detail::Usage).await?;
        Ok(read.into_iter().map(|container| render::stats::container(&container)))
    }

    pub(super) async fn listed_sandbox_stats(
        &self,
        filter: Option<&cri::PodSandboxStatsFilter>,
    ) -> Result<impl Iterator<Item = cri::PodSandboxStats> + Send + use<>, Status> {
        let now = self.measurable().await?;
        let is_requested = |record: &SandboxRecord| measures_sandbox(filter, record);
        let read = self.stats.pods(&now, is_requested, Detail::Usage).await?;
        Ok(read.into_iter().map(|pod| render::stats::pod(&pod)))
    }

    pub(super) async fn listed_metrics(
        &self,
    ) -> Result<impl Iterator<Item = cri::PodSandboxMetrics> + Send + use<>, Status> {
        let now = self.now().await?;
        let read = self.stats.pods(&now, |_| true, Detail::Everything).await?;
        let (disks, pause) = (self.stats.disks(), Arc::clone(&self.sandbox_image));
        let metrics = move |pod| render::metrics::response::pod(&pod, &disks, &pause);
        Ok(read.into_iter().map(metrics))
    }
}

impl ImageRpc {
    pub(super) async fn listed(
        &self,
        filter: Option<&cri::ImageFilter>,
    ) -> Result<impl Iterator<Item = cri::Image> + Send + use<>, Status> {
        let filter = parse::image::image_filter(filter);
        let now = self.store.images().await?;
        let requested = match filter {
            None => now.images().to_vec(),
            Some(name) => now.images_named(&name),
        };
        let rpc = self.clone();
        Ok(requested.into_iter().map(move |image| rpc.render(&image)))
    }
}
