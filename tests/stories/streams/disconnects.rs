//! Tests streams whose client disconnects, or whose container, dockbridge or engine ends.

use std::time::Duration;

use super::Scene;
use crate::support::{
    engine::Engine,
    failure::{Outcome, ensure, ensure_eq, fail},
    patience::patient,
    remote::{Session, USUAL, Wish, exec_request},
    upgrade::{self, Place},
    world::World,
};
use crate::{execs::until, restarts::until_ready};

/// If the client disconnects, a command with a terminal ends and a command without a terminal continues.
/// dockbridge keeps no descriptors of a command whose client has disconnected.
pub(crate) async fn of_the_client(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "client_leaves").await?;
    let (cri, id, bridge) = (&scene.stage.cri, scene.container.as_str(), scene.bridge()?);
    let mut held = None;
    for (number, way) in USUAL.into_iter().cycle().take(8).enumerate() {
        let terminal = format!("41{number}41");
        let stubborn = format!("42{number}42");
        let plain = format!("43{number}43");
        let obeys = Session::exec(cri, way, id, &["sleep", &terminal], Wish::Terminal).await?;
        let line = format!("trap '' HUP; exec sleep {stubborn}");
        let ignores = Session::shell(cri, way, id, &line, Wish::Terminal).await?;
        let stays = Session::exec(cri, way, id, &["sleep", &plain], Wish::Pipes).await?;
        for marker in [&terminal, &stubborn, &plain] {
            scene.until_runs(&format!("sleep {marker}"), true).await?;
        }
        drop((obeys, ignores, stays));
        scene.until_runs(&format!("sleep {terminal}"), false).await?;
        scene.until_runs(&format!("sleep {stubborn}"), false).await?;
        match held {
            // After the first two rounds, dockbridge has opened all descriptors that it opens only once.
            None if number == 1 => {
                tokio::time::sleep(patient(std::time::Duration::from_secs(2))).await;
                held = Some(bridge.descriptors()?);
            }
            None => {}
            // Concurrent calls leave further idle connections to the engine open for up to a minute.
            Some(held) => bridge.lets_go(held + 3).await?,
        }
        ensure!(scene.runs(&format!("sleep {plain}")).await?, "{way:?}: not a terminal, yet gone");
    }
    scene.ends().await
}

/// If the container is stopped, or removed with `docker rm -f`, exec ends with an error, and attach ends.
pub(crate) async fn of_the_container(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "container_leaves").await?;
    let (cri, bridge) = (&scene.stage.cri, scene.bridge()?);
    let held = scene.descriptors().await?;
    for (number, way) in USUAL.into_iter().enumerate() {
        for how in ["stop", "rm"] {
            let name = format!("leaving{number}-{how}");
            let id = scene.add(&scene.stage.recipes.sleeper(&name)).await?;
            let mut pipes = Session::exec(cri, way, &id, &["cat"], Wish::Pipes).await?;
            let mut terminal = Session::exec(cri, way, &id, &["cat"], Wish::Terminal).await?;
            let mut attached = Session::attach(cri, way, &id, Wish::Output).await?;
            pipes.send("there\n").await?;
            pipes.stdout.until("there").await?;
            terminal.send("there\n").await?;
            terminal.stdout.until("there").await?;
            attached.ping().await?;
            match how {
                "stop" => cri.stop_container(&id, 5).await?,
                _ => drop(scene.stage.engine.docker(&["rm", "-f", &id]).await?),
            }
            for session in [&mut pipes, &mut terminal] {
                let ended = session.collect().await?;
                ensure!(ended.error.contains("Failure"), "{way:?} {how}: {ended:?}");
            }
            attached.collect().await?;
        }
    }
    bridge.lets_go(held + 3).await?;
    scene.ends().await
}

/// If dockbridge is killed or stopped, its clients see the end of their streams, and the restarted dockbridge
/// serves streams again.
pub(crate) async fn of_dockbridge(world: World) -> Outcome {
    let mut scene = Scene::quiet(&world, "dockbridge_leaves").await?;
    for way in USUAL {
        for graceful in [false, true] {
            let (cri, id) = (scene.stage.cri.clone(), scene.container.clone());
            let mut pipes = Session::exec(&cri, way, &id, &["cat"], Wish::Pipes).await?;
            pipes.send("there\n").await?;
            pipes.stdout.until("there\n").await?;
            let url = cri.exec(&exec_request(&id, &["true"], Wish::Output)).await?;
            scene.stage.cri = match graceful {
                true => scene.stage.bridge.restart().await?,
                false => scene.stage.bridge.crash().await?,
            };
            let ended = pipes.collect().await?;
            ensure_eq!(ended.stdout, "", "{way:?}");
            let mut again =
                Session::exec(&scene.stage.cri, way, &id, &["echo", "again"], Wish::Output).await?;
            ensure_eq!(again.collect().await?.stdout, "again\n", "{way:?}");
            not_known(&scene, &url).await?;
        }
    }
    scene.ends().await
}

/// If the engine is killed and its containers keep running, clients get an error soon, and a command with a
/// terminal ends.
pub(crate) async fn of_the_engine(world: World) -> Outcome {
    Engine::of(world.clone()).control(&["restart", "--live-restore"]).await?;
    let scene = Scene::quiet(&world, "engine_leaves").await?;
    let (cri, id, bridge) = (&scene.stage.cri, scene.container.as_str(), scene.bridge()?);
    let mut held = None;
    for round in 0..2 {
        let (mut sessions, mut terminals) = (Vec::new(), Vec::new());
        for (number, way) in USUAL.into_iter().enumerate() {
            let words = format!("sleep 44{round}{number}44");
            let mut pipes = Session::exec(cri, way, id, &["cat"], Wish::Pipes).await?;
            let terminal = Session::shell(cri, way, id, &words, Wish::Terminal).await?;
            let attached = Session::attach(cri, way, id, Wish::Output).await?;
            pipes.send("there\n").await?;
            pipes.stdout.until("there").await?;
            // dockbridge can send SIGHUP only to a process that it has found.
            until(|| bridge.watches_process(&words)).await?;
            attached.ping().await?;
            sessions.extend([(way, pipes), (way, terminal), (way, attached)]);
            terminals.push(words);
        }
        scene.stage.engine.control(&["kill"]).await?;
        for (way, session) in &mut sessions {
            let ended = tokio::time::timeout(patient(SOON), session.collect()).await;
            let Ok(ended) = ended else { fail!("{way:?}: a session goes on without its engine") };
            let error = ended?.error;
            ensure!(error.contains("Failure") && error.contains("docker"), "{way:?}: {error:?}");
        }
        drop(sessions);
        // dockbridge's descriptors are counted while the engine is down, because idle connections to the engine
        // are then closed. The first round has opened all descriptors that are opened only once. A leak would
        // add a descriptor in each round.
        match held {
            None => held = Some(bridge.fewest_descriptors().await?),
            Some(held) => bridge.lets_go(held).await?,
        }
        scene.stage.engine.control(&["start", "--live-restore"]).await?;
        until_ready(cri).await?;
        for words in terminals {
            scene.until_runs(&words, false).await?;
        }
    }
    scene.stage.cri.clear().await?;
    scene.stage.engine.control(&["restart"]).await?;
    until_ready(&scene.stage.cri).await?;
    scene.stage.leaves_nothing().await
}

/// How soon a client must get an error after the engine was killed.
const SOON: Duration = Duration::from_secs(30);

/// Checks that a URL with a token of an earlier dockbridge is not valid.
async fn not_known(scene: &Scene, url: &str) -> Outcome {
    let fresh =
        scene.stage.cri.exec(&exec_request(&scene.container, &["true"], Wish::Output)).await?;
    let (old, new) = (Place::of(url)?, Place::of(&fresh)?);
    let place = Place { authority: new.authority, path: old.path };
    ensure_eq!(upgrade::ask(&place, "POST", &[]).await?.status, 404);
    Ok(())
}
