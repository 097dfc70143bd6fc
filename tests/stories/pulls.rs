//! Tests pulls from a registry that is slow, stuck, unavailable or requires tokens, and many concurrent pulls.

use std::{path::Path, time::Duration};

use dockbridge::wire::cri;
use serde_json::json;
use tokio::{task::JoinSet, time::timeout};

use crate::support::{
    cri::Cri,
    failure::{Outcome, ensure, ensure_eq, fail},
    patience::Looks,
    proxy::Proxy,
    registry::{Guard, Manner, Registry},
    stage::Stage,
    world::World,
};

/// A hundred clients pull one image at the same time. The engine pulls the image once, and the registry sends
/// the image once. A client that disconnects does not affect the others. When the last client has
/// disconnected, the download stops.
pub(crate) async fn of_one_image_by_many(world: World) -> Outcome {
    let proxy = Proxy::start(&world.root.join("tmp/pulls.sock"), &world.docker)?;
    let stage = Stage::behind(&world, "of_one_image_by_many", proxy.socket()).await?;
    let registry = Registry::start().await?;
    registry.offer("crowd", &["1"], MEBIBYTE, &json!({}));
    registry.behave(Manner::Slow(Duration::from_millis(50)));
    let name = format!("{}/crowd:1", registry.address);
    let mut callers = crowd(&stage.cri, &name, 100);
    let impatient = timeout(Duration::from_millis(500), stage.cri.pull(&name, None)).await;
    ensure!(impatient.is_err(), "it cannot be done yet");
    let mut ids = Vec::new();
    while let Some(id) = callers.join_next().await {
        ids.push(id??);
    }
    ids.dedup();
    ensure_eq!((ids.len(), registry.layers_asked(), registry.abandoned()), (1, 1, 0));
    let pulls = proxy.take().into_iter().filter(|line| line.contains("/images/create"));
    ensure_eq!(pulls.count(), 1);
    stage.cri.remove_image(&name).await?;

    registry.offer("left", &["1"], MEBIBYTE, &json!({}));
    let name = format!("{}/left:1", registry.address);
    let mut callers = crowd(&stage.cri, &name, 3);
    until(|| registry.layers_asked() == 2).await?;
    callers.abort_all();
    while callers.join_next().await.is_some() {}
    until(|| registry.abandoned() == 1).await?;
    ensure_eq!(stage.cri.image(&name).await?, None);
    stage.leaves_nothing().await
}

/// dockbridge cancels a pull whose download makes no progress for `image-pull-progress-deadline`, and the error names
/// the layer and its step. dockbridge does not cancel a slow pull that makes progress. The error of a pull from an
/// unavailable registry says that the registry is unavailable.
pub(crate) async fn from_a_stuck_registry(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "from_a_stuck_registry").await?;
    let deadline = ["--image-pull-progress-deadline", "3s"];
    stage.cri = stage.bridge.restart_with(&deadline).await?;
    let registry = Registry::start().await?;
    registry.offer("layers", &["1"], 4 * MEBIBYTE, &json!({}));
    let name = format!("{}/layers:1", registry.address);
    registry.behave(Manner::Stuck);
    let Some(cut) = stage.cri.pull(&name, None).await.err() else { fail!("it was pulled") };
    ensure_eq!(cut.code, tonic::Code::DeadlineExceeded, "{cut}");
    let said = format!("pull of {name} made no progress for 3s: layer ");
    ensure!(cut.message.starts_with(&said), "{cut}");
    ensure!(cut.message.contains("is at \"Downloading\", "), "{cut}");

    // The next pulls may also make no progress: an old engine may keep its connection to the registry, and containerd's
    // image store keeps the layer locked until containerd has noticed the end of the cancelled download.
    registry.behave(Manner::Slow(Duration::from_millis(200)));
    let mut looks = Looks::every(Duration::from_millis(100));
    while let Err(refused) = stage.cri.pull(&name, None).await {
        let is_late = refused.code == tonic::Code::DeadlineExceeded;
        ensure!(is_late && looks.again().await, "{refused}");
    }
    stage.cri.remove_image(&name).await?;

    registry.behave(Manner::Unavailable);
    let Some(refused) = stage.cri.pull(&name, None).await.err() else { fail!("it was pulled") };
    ensure!(refused.message.starts_with("RegistryUnavailable: "), "{refused}");
    ensure_eq!(refused.code, tonic::Code::Unknown, "kubelet reads only this one");
    stage.leaves_nothing().await
}

/// Tests different kinds of credentials that a pull may have.
pub(crate) async fn with_every_credential(world: World) -> Outcome {
    let stage = Stage::cni(&world, "with_every_credential").await?;
    let private = &world.private;
    let name = format!("{}/busybox:1", private.address);
    let packed = {
        use base64::{Engine as _, prelude::BASE64_STANDARD};
        BASE64_STANDARD.encode(format!("{}:{}", private.user, private.password))
    };
    let by_name = cri::AuthConfig {
        username: private.user.clone(),
        password: private.password.clone(),
        ..Default::default()
    };
    let by_auth = cri::AuthConfig { auth: packed, ..Default::default() };
    for mut auth in [by_name, by_auth] {
        stage.cri.pull(&name, Some(auth.clone())).await?;
        auth.server_address = format!("http://{}", private.address);
        stage.cri.pull(&name, Some(auth)).await?;
        stage.engine.docker(&["rmi", &name]).await?;
    }

    let registry = Registry::start().await?;
    registry.offer("tokens", &["1"], 1024, &json!({}));
    let (bearer, refresh) = ("bearer-of-a-story".to_owned(), "refresh-of-a-story".to_owned());
    registry.admit(Guard::Token { bearer: bearer.clone(), refresh: refresh.clone() });
    let name = format!("{}/tokens:1", registry.address);
    let by_bearer = cri::AuthConfig { registry_token: bearer, ..Default::default() };
    let by_refresh = cri::AuthConfig { identity_token: refresh, ..Default::default() };
    let wrong = cri::AuthConfig { identity_token: "wrong-one".to_owned(), ..Default::default() };
    for auth in [None, Some(wrong)] {
        let Some(refused) = stage.cri.pull(&name, auth).await.err() else { fail!("let in") };
        ensure!(!refused.message.contains("wrong-one"), "a secret is told: {refused}");
    }
    for auth in [by_bearer, by_refresh] {
        stage.cri.pull(&name, Some(auth)).await?;
        stage.cri.remove_image(&name).await?;
    }
    stage.leaves_nothing().await
}

/// The registry of the pause image may need a password, which dockbridge gets from a credential helper of
/// Docker's client.
pub(crate) async fn of_a_guarded_pause(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "of_a_guarded_pause").await?;
    let (private, shared) = (&world.private, stage.folders.shared.clone());
    let helper = format!("{}/docker-credential-story", shared.display());
    let answer = json!({ "Username": private.user, "Secret": private.password });
    write_program(
        Path::new(&helper),
        &format!(
            "#!/bin/sh\n[ \"$1\" = get ] && [ \"$(cat)\" = {} ] && echo '{answer}'\n",
            private.address
        ),
    )?;
    let config = shared.join("config.json");
    let helpers = json!({ "credHelpers": { private.address.as_str(): "story" } });
    std::fs::write(&config, helpers.to_string())?;
    let name = format!("{}/busybox:1", private.address);
    let config = config.display().to_string();
    stage.bridge.search_programs_in(&shared);
    stage.cri = stage
        .bridge
        .restart_with(&["--sandbox-image", &name, "--registry-config", &config])
        .await?;
    // The image has no program that waits, so the pod may fail, but its image is pulled and pinned.
    drop(stage.cri.run(&stage.recipes.pod("guarded")).await);
    let pause = stage.cri.image(&name).await?.unwrap_or_default();
    ensure!(pause.pinned, "the pause is not there, or not pinned");
    stage.cri.clear().await?;
    stage.engine.docker(&["rmi", &name]).await?;
    stage.leaves_nothing().await
}

fn crowd(
    cri: &Cri,
    name: &str,
    size: usize,
) -> JoinSet<Result<String, crate::support::cri::Refused>> {
    let mut callers = JoinSet::new();
    for _ in 0..size {
        let (cri, name) = (cri.clone(), name.to_owned());
        callers.spawn(async move { cri.pull(&name, None).await });
    }
    callers
}

async fn until(mut holds: impl FnMut() -> bool) -> Outcome {
    for _ in 0..1000 {
        if holds() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fail!("it never came true")
}

fn write_program(path: &Path, text: &str) -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text)?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?)
}

const MEBIBYTE: usize = 1 << 20;
