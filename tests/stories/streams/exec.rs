//! Tests streamed commands in a container: their output, their end, and their terminal.

use super::Scene;
use crate::support::{
    failure::{Outcome, ensure, ensure_eq},
    remote::{ALL, SPDY, Session, USUAL, WEBSOCKET, Way, Wish},
    world::World,
};

/// Every protocol of exec transfers stdin, stdout and stderr, and reports a non-zero exit code.
pub(crate) async fn in_every_way(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "exec_ways").await?;
    let (cri, id) = (&scene.stage.cri, scene.container.as_str());
    for way in ALL {
        let line = "read line; echo \"got $line\"; echo problem >&2; exit 3";
        let mut session = Session::shell(cri, way, id, line, Wish::Pipes).await?;
        session.send("a word\n").await?;
        let ended = session.collect().await?;
        ensure_eq!(ended.stdout, "got a word\n", "{way:?}");
        ensure_eq!(ended.stderr, "problem\n", "{way:?}");
        if way.tells_codes() {
            ensure_eq!(ended.code()?, 3, "{way:?}");
        } else {
            ensure!(ended.error.contains("exit code"), "{way:?}: {:?}", ended.error);
        }
        manners(way, &session)?;
        let mut session = Session::exec(cri, way, id, &["true"], Wish::Output).await?;
        let ended = session.collect().await?;
        ensure_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""), "{way:?}");
        if way.tells_codes() {
            ensure_eq!(ended.code()?, 0, "{way:?}");
        } else {
            ensure_eq!(ended.error, "", "{way:?}");
        }
    }
    scene.ends().await
}

/// Checks that a WebSocket session starts with an empty message on the first output channel and ends with a
/// normal close.
fn manners(way: Way, session: &Session) -> Outcome {
    let Some(socket) = session.socket() else { return Ok(()) };
    ensure_eq!(socket.seen().first, Some((1, 0)), "{way:?}");
    ensure_eq!(socket.seen().close, Some(1000), "{way:?}");
    Ok(())
}

/// With each protocol that can close stdin, a client can end the input of a command while the command's output
/// continues.
pub(crate) async fn half_closed(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "exec_half_closed").await?;
    for way in ALL.into_iter().filter(|way| way.closes_stdin()) {
        let line = "cat; echo after; wc -c </etc/passwd >/dev/null; exit 5";
        let mut session =
            Session::shell(&scene.stage.cri, way, &scene.container, line, Wish::Pipes).await?;
        session.send("first ").await?;
        session.stdout.until("first ").await?;
        session.ping().await?;
        session.send("second\n").await?;
        session.finish().await?;
        let ended = session.collect().await?;
        ensure_eq!(ended.stdout, "second\nafter\n", "{way:?}");
        if way.tells_codes() {
            ensure_eq!(ended.code()?, 5, "{way:?}");
        }
    }
    scene.ends().await
}

/// If a command writes to stdout and stderr alternately, both arrive completely, each in its own stream.
pub(crate) async fn two_outputs(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "exec_outputs").await?;
    let line = "i=0; while [ $i -lt 2000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
    let expected = |word: &str| (0..2000).map(|i| format!("{word} {i}\n")).collect::<String>();
    for way in USUAL {
        let mut session =
            Session::shell(&scene.stage.cri, way, &scene.container, line, Wish::Output).await?;
        let ended = session.collect().await?;
        ensure!(ended.stdout == expected("out"), "{way:?}: output of {}", ended.stdout.len());
        ensure!(ended.stderr == expected("err"), "{way:?}: errors of {}", ended.stderr.len());
        ensure_eq!(ended.code()?, 0);
    }
    scene.ends().await
}

/// A command's terminal has the requested size, changes its size when requested, and receives every key.
pub(crate) async fn a_terminal(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "exec_terminal").await?;
    for way in
        [SPDY, WEBSOCKET, Way::Spdy("v3.channel.k8s.io"), Way::WebSocket("v4.channel.k8s.io")]
    {
        resized(&scene, way).await?;
        every_key(&scene, way).await?;
    }
    scene.ends().await
}

async fn resized(scene: &Scene, way: Way) -> Outcome {
    let line = "tty; for s in '45 123' '7 33'; do \
                until [ \"$(stty size)\" = \"$s\" ]; do sleep 0.05; done; echo now $s; done; exit 9";
    let mut session =
        Session::shell(&scene.stage.cri, way, &scene.container, line, Wish::Terminal).await?;
    session.stdout.until("/dev/").await?;
    session.resize(123, 45).await?;
    session.stdout.until("now 45 123").await?;
    // A resize message with a width of 0 does not change the terminal.
    session.resize(0, 45).await?;
    session.resize(33, 7).await?;
    session.stdout.until("now 7 33").await?;
    let ended = session.collect().await?;
    ensure_eq!(ended.stdout, "\r\n", "{way:?}");
    if way.tells_codes() {
        ensure_eq!(ended.code()?, 9, "{way:?}");
    }
    Ok(())
}

/// Every key except NUL reaches the command's terminal as soon as it is typed. With Docker's default detach keys,
/// the engine would hold back ctrl-p.
async fn every_key(scene: &Scene, way: Way) -> Outcome {
    let line = "stty raw echo -echoctl; echo ready; exec sleep 1000";
    let mut session =
        Session::shell(&scene.stage.cri, way, &scene.container, line, Wish::Terminal).await?;
    session.stdout.until("ready").await?;
    session.stdout.until("\n").await?;
    for key in 0x01..=0x7f_u8 {
        session.send([key]).await?;
        session.stdout.until(&char::from(key).to_string()).await?;
    }
    // The engine holds back only this key (a NUL byte) until the next key.
    session.send([0x00]).await?;
    session.send([b'x']).await?;
    session.stdout.until("\0x").await?;
    drop(session);
    // In an interactive shell, ctrl-d ends the shell.
    let mut session =
        Session::exec(&scene.stage.cri, way, &scene.container, &["sh"], Wish::Terminal).await?;
    session.send("echo one$((1+1))three\n").await?;
    session.stdout.until("one2three").await?;
    // The test waits for the prompt: if ctrl-d is typed before the shell reads keys again, it ends a line and
    // not the shell.
    session.stdout.until("# ").await?;
    session.send([0x04]).await?;
    session.collect().await?;
    Ok(())
}

/// If the command's program is missing, the session ends with a failure.
pub(crate) async fn that_cannot_start(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "exec_cannot_start").await?;
    for way in USUAL {
        for wish in [Wish::Output, Wish::Pipes, Wish::Terminal] {
            let command = ["/no/such/program"];
            let mut session =
                Session::exec(&scene.stage.cri, way, &scene.container, &command, wish).await?;
            let ended = session.collect().await?;
            ensure!(ended.error.contains("\"Failure\""), "{way:?} {wish:?}: {ended:?}");
        }
    }
    scene.ends().await
}

/// The session ends when the command ends, even if a child process keeps the command's pipes open. dockbridge does
/// not kill such a child process.
pub(crate) async fn with_a_child_that_stays(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "exec_child").await?;
    for way in USUAL {
        let line = "sleep 31313 & echo begun; exit 4";
        let mut session =
            Session::shell(&scene.stage.cri, way, &scene.container, line, Wish::Output).await?;
        let ended = session.collect().await?;
        ensure_eq!(ended.stdout, "begun\n");
        ensure_eq!(ended.code()?, 4);
    }
    ensure!(scene.runs("sleep 31313").await?, "the child is gone");
    scene.ends().await
}
