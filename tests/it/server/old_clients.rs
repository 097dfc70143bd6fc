//! dockbridge also answers clients with CRI v1alpha2.

use dockbridge::wire::cri;
use http::uri::PathAndQuery;
use tonic::{Code, Request, Status, client::Grpc};
use tonic_prost::ProstCodec;

use crate::support::bridge::{Bridge, docker, pod};

#[tokio::test]
async fn v1alpha2_is_answered() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let version: cri::VersionResponse =
        call(&bridge, "RuntimeService/Version", cri::VersionRequest::default()).await.unwrap();
    assert_eq!(version.version, "0.1.0");
    let wanted = cri::RunPodSandboxRequest { config: Some(pod("p")), ..Default::default() };
    let run: cri::RunPodSandboxResponse =
        call(&bridge, "RuntimeService/RunPodSandbox", wanted).await.unwrap();
    assert_eq!(bridge.pods().await.unwrap()[0].id, run.pod_sandbox_id);
    let images: cri::ListImagesResponse =
        call(&bridge, "ImageService/ListImages", cri::ListImagesRequest::default()).await.unwrap();
    assert!(!images.images.is_empty());
    let unknown: Result<cri::VersionResponse, Status> =
        call(&bridge, "RuntimeService/Nothing", cri::VersionRequest::default()).await;
    assert_eq!(unknown.unwrap_err().code(), Code::Unimplemented);
    bridge.clear(&docker).await;
}

async fn call<Q, A>(bridge: &Bridge, method: &str, message: Q) -> Result<A, Status>
where
    Q: prost::Message + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let path = PathAndQuery::try_from(format!("/runtime.v1alpha2.{method}")).unwrap();
    let mut client = Grpc::new(bridge.channel.clone());
    client.ready().await.unwrap();
    let answer = client.unary(Request::new(message), path, ProstCodec::<Q, A>::default()).await?;
    Ok(answer.into_inner())
}
