//! Tests attach to a container's main process. The process continues after a client disconnects, but with `stdin_once`
//! its input ends.

use dockbridge::wire::cri;

use super::Scene;
use crate::{
    pods::until_exited,
    support::{
        failure::{Outcome, ensure, ensure_eq},
        remote::{Session, USUAL, Wish},
        stage::Stage,
        world::World,
    },
};

/// The request for a container with stdin.
fn listening(stage: &Stage, name: &str, line: &str, tty: bool, once: bool) -> cri::ContainerConfig {
    let mut container = stage.recipes.container(name, line);
    (container.stdin, container.stdin_once, container.tty) = (true, once, tty);
    container
}

/// A client attaches to a shell, which runs commands, prints exactly their output, and ends after `exit`.
pub(crate) async fn to_a_shell(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "attach_shell").await?;
    for (number, way) in USUAL.into_iter().enumerate() {
        let name = format!("shell{number}");
        let id = scene.add(&listening(&scene.stage, &name, "exec sh", false, true)).await?;
        let mut session = Session::attach(&scene.stage.cri, way, &id, Wish::Pipes).await?;
        session.send("echo hello\n").await?;
        ensure_eq!(session.stdout.until("\n").await?, "hello\n", "{way:?}");
        session.ping().await?;
        session.send("echo wrong >&2\n").await?;
        ensure_eq!(session.stderr.until("\n").await?, "wrong\n", "{way:?}");
        session.send("exit 6\n").await?;
        let ended = session.collect().await?;
        ensure_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""), "{way:?}");
        ensure_eq!(ended.code()?, 0, "{way:?}");
        ensure_eq!(until_exited(&scene.stage.cri, &id).await?.exit_code, 6);
    }
    scene.ends().await
}

/// A client disconnects without closing its session, or ends its input. The container keeps running, and the
/// next client can attach. The end of the input ends the session.
pub(crate) async fn left_and_taken_up_again(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "attach_again").await?;
    let line = "n=0; while read word; do n=$((n+1)); echo $n $word; done";
    let bridge = scene.bridge()?;
    for tty in [false, true] {
        let name = format!("main-{tty}");
        let id = scene.add(&listening(&scene.stage, &name, line, tty, false)).await?;
        let wish = if tty { Wish::Terminal } else { Wish::Pipes };
        let mut held = None;
        for number in 1..=6 {
            let way = USUAL[number % 2];
            let mut session = Session::attach(&scene.stage.cri, way, &id, wish).await?;
            session.send("visit\n").await?;
            session.stdout.until(&format!("{number} visit")).await?;
            drop(session);
            match held {
                // Descriptors that dockbridge opens only once are open after two clients.
                None if number == 2 => held = Some(bridge.descriptors()?),
                None => {}
                Some(held) => bridge.lets_go(held + 1).await?,
            }
        }
        for (number, way) in (7..).zip(USUAL) {
            let mut session = Session::attach(&scene.stage.cri, way, &id, wish).await?;
            session.send("visit\n").await?;
            session.stdout.until(&format!("{number} visit")).await?;
            session.finish().await?;
            ensure_eq!(session.collect().await?.code()?, 0, "{way:?}");
        }
        let status = scene.stage.cri.container(&id).await?;
        ensure_eq!(status.state(), cri::ContainerState::ContainerRunning);
    }
    scene.ends().await
}

/// With `stdin_once`, the input ends when its only client disconnects, so that a process such as `cat` ends as well.
pub(crate) async fn left_for_good(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "attach_once").await?;
    for (number, way) in USUAL.into_iter().enumerate() {
        for closes in [true, false] {
            let name = format!("cat{number}-{closes}");
            let line = "cat; echo over; exit 8";
            let id = scene.add(&listening(&scene.stage, &name, line, false, true)).await?;
            let mut session = Session::attach(&scene.stage.cri, way, &id, Wish::Pipes).await?;
            session.send("something\n").await?;
            session.stdout.until("something\n").await?;
            if closes {
                session.finish().await?;
                ensure_eq!(session.collect().await?.stdout, "over\n", "{way:?}");
            } else {
                drop(session);
            }
            ensure_eq!(until_exited(&scene.stage.cri, &id).await?.exit_code, 8, "{way:?}");
        }
    }
    scene.ends().await
}

/// A client of a container's terminal can set its size and send keys.
pub(crate) async fn to_a_terminal(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "attach_terminal").await?;
    for (number, way) in USUAL.into_iter().enumerate() {
        let line = "read go; until [ \"$(stty size)\" = '45 123' ]; do sleep 0.05; done; echo sized; \
                    stty raw -echo; echo ready; dd bs=1 count=3 2>/dev/null | od -An -tx1; read never";
        let name = format!("tty{number}");
        let id = scene.add(&listening(&scene.stage, &name, line, true, false)).await?;
        let mut session = Session::attach(&scene.stage.cri, way, &id, Wish::Terminal).await?;
        session.send("go\n").await?;
        session.resize(123, 45).await?;
        session.stdout.until("sized").await?;
        session.stdout.until("ready").await?;
        session.send([0x10, 0x11, b'x']).await?;
        session.stdout.until("10 11 78").await?;
    }
    scene.ends().await
}

/// If the container ends, even with an error, the attach ends with success, because the attach itself did not fail.
pub(crate) async fn until_it_ends(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "attach_ends").await?;
    for (number, way) in USUAL.into_iter().enumerate() {
        for (place, wish) in [Wish::Output, Wish::Terminal].into_iter().enumerate() {
            let tty = wish == Wish::Terminal;
            let name = format!("short{number}{place}");
            let line = "until [ -e /tmp/go ]; do sleep 0.05; done; echo last words; exit 3";
            let id = scene.add(&listening(&scene.stage, &name, line, tty, false)).await?;
            let mut session = Session::attach(&scene.stage.cri, way, &id, wish).await?;
            session.ping().await?;
            scene.stage.engine.let_go(&id, "/tmp/go").await?;
            let ended = session.collect().await?;
            let said = if tty { "last words\r\n" } else { "last words\n" };
            ensure_eq!(ended.stdout, said, "{way:?}");
            ensure_eq!(ended.code()?, 0, "{way:?}");
        }
        let refused = Session::attach(&scene.stage.cri, way, "no-such", Wish::Output).await;
        ensure!(refused.is_err(), "attached to nothing");
    }
    scene.ends().await
}
