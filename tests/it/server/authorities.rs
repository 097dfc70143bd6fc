//! Old gRPC clients, which send the socket's path as `:authority`, and current clients work on the same socket.

use dockbridge::wire::cri::VersionRequest;
use tokio::time::timeout;

use crate::support::{
    bridge::{Bridge, LONG, docker},
    old_client::{Kind, OldClient},
};

#[tokio::test]
async fn clients_with_every_authority_are_answered_at_once() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let socket = bridge.node().path("cri.sock");
    let old = [Kind::CCore, Kind::GrpcGo, Kind::CCore, Kind::GrpcGo].map(async |kind| {
        let mut client = OldClient::connect(kind, &socket).await;
        for number in 1..=20 {
            let called = client.call("/runtime.v1.RuntimeService/Version");
            let answer = timeout(LONG, called).await.expect("an answer in time");
            assert_eq!(answer.status, "0", "{kind:?}, call {number}");
            assert!(answer.data.ends_with(b"v1"), "{kind:?}, call {number}: {:?}", answer.data);
        }
    });
    let today = [(); 2].map(async |()| {
        for _ in 0..20 {
            bridge.runtime.clone().version(VersionRequest::default()).await.unwrap();
        }
    });
    tokio::join!(futures_util::future::join_all(old), futures_util::future::join_all(today));
}
