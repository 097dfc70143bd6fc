//! Tests old CRI clients, which send the socket's path as `:authority`, and current clients on one socket.

use std::time::Duration;

use futures_util::future::{try_join, try_join_all};
use tokio::time::timeout;

use crate::{
    old_client::{Kind, OldClient},
    support::{
        failure::{Outcome, ensure, ensure_eq},
        patience::patient,
        stage::Stage,
        world::World,
    },
};

/// Each client gets an answer with the pod in every call.
pub(crate) async fn of_every_kind_at_once(world: World) -> Outcome {
    let stage = Stage::docker(&world, "of_every_kind_at_once").await?;
    let sandbox = stage.cri.run(&stage.recipes.pod("seen")).await?;
    let socket = stage.bridge.socket();
    let kinds = [Kind::GrpcGo, Kind::CCore].into_iter().cycle().take(6);
    let old = kinds.map(async |kind| -> Outcome {
        let mut client = OldClient::connect(kind, socket).await;
        for _ in 0..CALLS {
            let called = client.call("/runtime.v1.RuntimeService/ListPodSandbox");
            let answer = timeout(patient(Duration::from_secs(10)), called).await?;
            ensure_eq!(answer.status, "0", "{kind:?}");
            let sees = answer.data.windows(sandbox.len()).any(|part| part == sandbox.as_bytes());
            ensure!(sees, "{kind:?} does not see the pod");
        }
        Ok(())
    });
    let today = (0..3).map(async |_| -> Outcome {
        let cri = stage.bridge.cri().await?;
        for _ in 0..CALLS {
            ensure_eq!(cri.sandboxes().await?.len(), 1);
        }
        Ok(())
    });
    try_join(try_join_all(old), try_join_all(today)).await?;
    println!("  6 old clients and 3 of today, {CALLS} calls each");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// The number of calls of each client.
const CALLS: usize = 50;
