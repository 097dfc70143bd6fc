//! Runtime handlers: the engine's OCI runtimes, including one that is added while the engine runs.

use std::{fs, time::Duration};

use dockbridge::{model::oci_edits::RUNTIME, wire::cri};
use serde_json::{Value, json};
use tonic::Code;

use crate::{
    security::said,
    support::{
        failure::{Outcome, ensure, ensure_eq},
        patience::Looks,
        stage::Stage,
        world::World,
    },
};

/// Status reports the runtime handlers of the engine, a handler applies to a pod and its containers, and dockbridge
/// refuses an unknown handler. A runtime that is added while the engine runs becomes available after dockerd has
/// reloaded its configuration.
pub(crate) async fn of_the_engine(world: World) -> Outcome {
    let stage = Stage::cni(&world, "of_the_engine").await?;
    let before = handlers(&stage).await?;
    let recursive = world.docker_major >= 25;
    for name in ["", "docker", "runc"] {
        ensure!(before.contains(&(name.to_owned(), recursive)), "{name:?} is not in {before:?}");
    }
    let pod = stage.recipes.pod("unknown");
    let refused = stage.cri.run_with(&pod, LATE).await;
    said(refused, (Code::InvalidArgument, "unknown runtime handler \"late\""))?;
    ensure_eq!(stage.engine.containers().await?, Vec::<String>::new());

    let config = world.root.join("docker/daemon.json");
    let text = fs::read_to_string(&config)?;
    let mut document: Value = serde_json::from_str(&text)?;
    document["runtimes"][LATE] = json!({ "path": "runc" });
    fs::write(&config, document.to_string())?;
    let outcome = with_a_late_one(&stage, recursive).await;
    fs::write(&config, text)?;
    stage.engine.control(&["restart"]).await?;
    outcome?;
    stage.leaves_nothing().await
}

async fn with_a_late_one(stage: &Stage, recursive: bool) -> Outcome {
    let pid = tokio::process::Command::new(&stage.world.control).arg("pid").output().await?;
    let pid = String::from_utf8_lossy(&pid.stdout).trim().parse()?;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGHUP)?;
    let mut looks = Looks::every(Duration::from_millis(50));
    let mut seen = Vec::new();
    while looks.again().await && !seen.iter().any(|(name, _)| name == LATE) {
        seen = handlers(stage).await?;
    }
    ensure!(seen.contains(&(LATE.to_owned(), recursive)), "{LATE:?} is not in {seen:?}");

    let pod = stage.recipes.pod("late");
    let sandbox = stage.cri.run_with(&pod, LATE).await?;
    let ids = stage.up(&sandbox, &pod, &[stage.recipes.sleeper("main")]).await?;
    // If `dockbridge-runtime` is registered, it is the runtime of the pause container, and runs the handler's runtime.
    let of_sandbox = if stage.world.has_oci_runtime { RUNTIME } else { LATE };
    for (id, expected) in [(&sandbox, of_sandbox), (&ids[0], LATE)] {
        let runtime =
            stage.engine.docker(&["inspect", "-f", "{{.HostConfig.Runtime}}", id]).await?;
        ensure_eq!(runtime, expected);
    }
    ensure_eq!(stage.cri.sandbox(&sandbox).await?.runtime_handler, LATE);
    ensure_eq!(stage.cri.sandboxes().await?[0].runtime_handler, LATE);
    stage.cri.clear().await
}

/// The names of the runtime handlers that Status reports, and whether they support recursive read-only mounts.
async fn handlers(stage: &Stage) -> Outcome<Vec<(String, bool)>> {
    let told: Vec<cri::RuntimeHandler> = stage.cri.status(false).await?.runtime_handlers;
    for one in &told {
        let has_users = one.features.is_some_and(|features| features.user_namespaces);
        ensure_eq!(has_users, stage.world.has_oci_runtime, "{told:?}");
    }
    let one = |handler: cri::RuntimeHandler| {
        let features = handler.features.unwrap_or_default();
        (handler.name, features.recursive_read_only_mounts)
    };
    Ok(told.into_iter().map(one).collect())
}

const LATE: &str = "late";
