//! Tests port-forward with the tests' own clients of every protocol. The test process itself runs most servers in the
//! pods' networks, so it can check both ends of a connection.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use dockbridge::wire::cri;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use tonic::Code;

use crate::{
    streams::{
        Scene,
        bulk::{GROWTH, until_still},
    },
    support::{
        failure::{Failure, Outcome, ensure, ensure_eq, fail},
        forwarding::{Forward, Line, ROUTES, Route},
        inside::{Manner, Server},
        mass::Mass,
        patience::patient,
        pod,
        stage::Stage,
        upgrade::Place,
        world::World,
    },
};

/// Forwards to a pod in a CNI network, with every protocol.
pub(crate) async fn to_a_pod(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "forward_pod").await?;
    in_every_way(&scene, Some(&scene.sandbox)).await?;
    ports_in_the_query(&scene).await?;
    to_a_container(&scene).await?;
    scene.ends().await
}

pub(crate) async fn on_the_engines_network(world: World) -> Outcome {
    let stage = Stage::docker(&world, "forward_engine").await?;
    let main = stage.recipes.sleeper("main");
    let scene = Scene::with(stage, &main).await?;
    in_every_way(&scene, Some(&scene.sandbox)).await?;
    scene.ends().await
}

/// Forwards to a pod in the host's network, whose loopback is the host's loopback.
pub(crate) async fn on_the_hosts_network(world: World) -> Outcome {
    let stage = Stage::cni(&world, "forward_host").await?;
    let mut pod = stage.recipes.pod("host");
    pod.hostname = String::new();
    pod::namespaces_of(&mut pod).network = cri::NamespaceMode::Node.into();
    let sandbox = stage.cri.run(&pod).await?;
    let scene = Scene { stage, pod, sandbox, container: String::new() };
    in_every_way(&scene, None).await?;
    scene.ends().await
}

async fn in_every_way(scene: &Scene, inside: Option<&str>) -> Outcome {
    let serve = async |manner| Server::start(&scene.stage.engine, inside, LOOPBACK, manner).await;
    let echo = serve(Manner::Echo).await?;
    let count = serve(Manner::Count).await?;
    let hello = serve(Manner::Hello).await?;
    let ports = [echo.port, count.port, hello.port];
    for route in ROUTES {
        let told = |failure| Failure(format!("{route:?}: {failure}"));
        let mut forward =
            Forward::to(&scene.stage.cri, route, &scene.sandbox, &ports).await.map_err(told)?;
        echoes(&mut forward, echo.port).await.map_err(told)?;
        speaks_first(&mut forward, hello.port).await.map_err(told)?;
        if !matches!(route, Route::WebSocket(_)) {
            half_closes(&mut forward, count.port).await.map_err(told)?;
            // After the earlier connections have ended, the session can open further connections.
            echoes(&mut forward, echo.port).await.map_err(told)?;
        }
        drop(forward);
        until_left(&echo).await.map_err(told)?;
        until_left(&count).await.map_err(told)?;
        until_left(&hello).await.map_err(told)?;
    }
    Ok(())
}

/// A WebSocket client may name the pod's ports in the query of the URL.
async fn ports_in_the_query(scene: &Scene) -> Outcome {
    let inside = Some(scene.sandbox.as_str());
    let echo = Server::start(&scene.stage.engine, inside, LOOPBACK, Manner::Echo).await?;
    let mut place = Place::of(&scene.stage.cri.port_forward(&scene.sandbox, &[]).await?)?;
    place.path.push_str(&format!("?port={NOBODY}&port={}", echo.port));
    let route = Route::WebSocket("v4.channel.k8s.io");
    let mut forward = Forward::open(route, &place, &[NOBODY, echo.port]).await?;
    echoes(&mut forward, echo.port).await
}

async fn echoes(forward: &mut Forward, port: u16) -> Outcome {
    let mut line = forward.connect(port).await?;
    for word in ["ping", "and again\n", "x"] {
        line.writer.send(word.as_bytes()).await?;
        line.reader.until(word).await?;
    }
    Ok(())
}

/// The pod closes its side of a connection first. The client gets the pod's data. Over SPDY, the client also gets
/// the end of the data, and can still send.
async fn speaks_first(forward: &mut Forward, port: u16) -> Outcome {
    let mut line = forward.connect(port).await?;
    line.reader.until("hello").await?;
    if forward.spdy().is_some() {
        ensure_eq!(line.reader.text().await?, "");
        line.writer.send(b"and a word of mine").await?;
        line.writer.finish().await?;
        ensure_eq!(line.error.text().await?, "");
    }
    Ok(())
}

/// The client closes its side of a connection first. The pod's answer still arrives after that.
async fn half_closes(forward: &mut Forward, port: u16) -> Outcome {
    let mut line = forward.connect(port).await?;
    line.writer.send(&[b'z'; 100_000]).await?;
    line.writer.finish().await?;
    ensure_eq!(line.reader.text().await?, "100000 bytes");
    ensure_eq!(line.error.text().await?, "");
    Ok(())
}

async fn until_left(server: &Server) -> Outcome {
    let deadline = Instant::now() + patient(Duration::from_secs(20));
    while server.seen.open.load(Ordering::SeqCst) > 0 {
        ensure!(Instant::now() < deadline, "connections stay open in the pod");
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Forwards to a server in a container of the pod.
async fn to_a_container(scene: &Scene) -> Outcome {
    scene.add(&scene.stage.recipes.web("web", 8080)).await?;
    let deadline = Instant::now() + patient(Duration::from_secs(20));
    loop {
        let mut forward =
            Forward::to(&scene.stage.cri, Route::Spdy, &scene.sandbox, &[8080]).await?;
        let mut line = forward.connect(8080).await?;
        line.writer.send(b"GET / HTTP/1.0\r\n\r\n").await?;
        let answer = line.reader.text().await?;
        if answer.starts_with("HTTP/1.") && answer.contains("dockbridge world") {
            return Ok(());
        }
        // The server in the container takes a moment to start listening.
        ensure!(Instant::now() < deadline, "the container says {answer:?}");
        sleep(Duration::from_millis(100)).await;
    }
}

/// Port-forward also reaches a server that listens only on `::1`. dockbridge tries `127.0.0.1` first.
pub(crate) async fn to_the_other_loopback(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "forward_six").await?;
    let (engine, sandbox) = (&scene.stage.engine, Some(scene.sandbox.as_str()));
    let six = Server::start(engine, sandbox, "[::1]:0", Manner::Echo).await?;
    for route in ROUTES {
        let mut forward = Forward::to(&scene.stage.cri, route, &scene.sandbox, &[six.port]).await?;
        let talked = echoes(&mut forward, six.port).await;
        talked.map_err(|failure| Failure(format!("{route:?}: {failure}")))?;
    }
    scene.ends().await
}

/// If no server listens at the port, dockbridge says so on the connection's error stream. Over SPDY, dockbridge
/// also ends the connection's data and error streams. The session's next connection works.
pub(crate) async fn refused(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "forward_refused").await?;
    let echo =
        Server::start(&scene.stage.engine, Some(&scene.sandbox), LOOPBACK, Manner::Echo).await?;
    for route in ROUTES {
        let told = |failure| Failure(format!("{route:?}: {failure}"));
        let ports = [NOBODY, echo.port];
        let mut forward = Forward::to(&scene.stage.cri, route, &scene.sandbox, &ports).await?;
        let mut line = forward.connect(NOBODY).await.map_err(told)?;
        let text = if forward.spdy().is_some() {
            let text = line.error.text().await.map_err(told)?;
            ensure_eq!(line.reader.text().await.map_err(told)?, "", "{route:?}");
            text
        } else {
            String::from_utf8_lossy(&line.error.next().await?.unwrap_or_default()).into_owned()
        };
        ensure!(text.contains(&NOBODY.to_string()), "{route:?} says {text:?}");
        ensure!(text.to_lowercase().contains("refused"), "{route:?} says {text:?}");
        echoes(&mut forward, echo.port).await.map_err(told)?;
    }
    scene.ends().await
}

/// dockbridge refuses PortForward calls with a wrong port or without a pod id, and for an unknown or stopped pod.
pub(crate) async fn wrong_requests(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "forward_wrong").await?;
    let cri = &scene.stage.cri;
    let ask = async |sandbox: &str, port: i32| {
        let request =
            cri::PortForwardRequest { pod_sandbox_id: sandbox.to_owned(), port: vec![port] };
        let answer = cri.runtime.clone().port_forward(request).await;
        answer.map(drop).map_err(|status| status.code())
    };
    ensure_eq!(ask("", 80).await, Err(Code::InvalidArgument));
    for port in [0, -1, 65536] {
        ensure_eq!(ask(&scene.sandbox, port).await, Err(Code::InvalidArgument), "{port}");
    }
    ensure_eq!(ask("0123456789abcdef", 80).await, Err(Code::NotFound));
    cri.stop(&scene.sandbox).await?;
    ensure_eq!(ask(&scene.sandbox, 80).await, Err(Code::FailedPrecondition));
    scene.ends().await
}

/// One session has many connections, one of them to a server that never reads.
pub(crate) async fn many_at_once(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "forward_many").await?;
    let (engine, sandbox) = (&scene.stage.engine, Some(scene.sandbox.as_str()));
    let echo = Server::start(engine, sandbox, LOOPBACK, Manner::Echo).await?;
    let deaf = Server::start(engine, sandbox, LOOPBACK, Manner::Deaf).await?;
    for route in [Route::Spdy, Route::SpdyWithoutIds, Route::Tunnel] {
        let mut forward = Forward::to(&scene.stage.cri, route, &scene.sandbox, &[]).await?;
        let stuck = forward.connect(deaf.port).await?;
        stuck.writer.send(&vec![0; 128 << 10]).await?;
        let mut talks = JoinSet::new();
        for number in 0..40 {
            let line = forward.connect(echo.port).await?;
            talks.spawn(talk(line, number));
        }
        while let Some(done) = talks.join_next().await {
            done?.map_err(|failure| Failure(format!("{route:?}: {failure}")))?;
        }
    }
    scene.ends().await
}

async fn talk(mut line: Line, number: u64) -> Outcome {
    let mass = Mass::new(number, 300_000);
    let (sent, received) = tokio::join!(
        async {
            mass.send(&line.writer).await?;
            line.writer.finish().await
        },
        mass.receive(&mut line.reader, true),
    );
    sent?;
    received
}

/// A forwarded connection transfers 100 MiB in each direction at the same time.
pub(crate) async fn a_hundred_megabytes(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "forward_bulk").await?;
    let echo =
        Server::start(&scene.stage.engine, Some(&scene.sandbox), LOOPBACK, Manner::Echo).await?;
    let mass = Arc::new(Mass::new(2, 100 << 20));
    for route in [Route::Spdy, Route::Tunnel, Route::WebSocket("v4.channel.k8s.io")] {
        let begun = Instant::now();
        let mut forward =
            Forward::to(&scene.stage.cri, route, &scene.sandbox, &[echo.port]).await?;
        let Line { mut reader, writer, .. } = forward.connect(echo.port).await?;
        let ends = forward.spdy().is_some();
        let sent = Arc::clone(&mass);
        let sending = tokio::spawn(async move {
            sent.send(&writer).await?;
            if ends { writer.finish().await } else { Ok(()) }
        });
        mass.receive(&mut reader, ends).await?;
        sending.await??;
        println!("  {route:?}: 100 MiB each way in {:.1} s", begun.elapsed().as_secs_f32());
    }
    scene.ends().await
}

/// If the client does not read the data of a pod, the pod has to wait, and dockbridge's memory grows by less than
/// [`GROWTH`].
pub(crate) async fn a_slow_reader(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "forward_slow").await?;
    let bridge = scene.bridge()?;
    for route in [Route::Spdy, Route::Tunnel, Route::WebSocket("v4.channel.k8s.io")] {
        let (engine, sandbox) = (&scene.stage.engine, Some(scene.sandbox.as_str()));
        let flood = Server::start(engine, sandbox, LOOPBACK, Manner::Flood).await?;
        let before = bridge.resident()?;
        let mut forward =
            Forward::to(&scene.stage.cri, route, &scene.sandbox, &[flood.port]).await?;
        let mut line = forward.connect(flood.port).await?;
        until_still(|| Ok(Some(flood.seen.written.load(Ordering::Relaxed)))).await?;
        let grown = bridge.resident()?.saturating_sub(before);
        println!("  {route:?}: {grown} KiB more while the pod waits");
        ensure!(grown < GROWTH, "{route:?}: dockbridge grew by {grown} KiB");
        let mut read = 0;
        while read < 64 << 20 {
            let Some(piece) = line.reader.next().await? else { fail!("{route:?}: it ended") };
            read += piece.len();
        }
        drop((forward, line));
        until_left(&flood).await?;
    }
    scene.ends().await
}

/// If the client disconnects, the pod's server sees the end of the connection. If the pod is stopped, the
/// client sees the end of the connection.
pub(crate) async fn partings(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "forward_partings").await?;
    let bridge = scene.bridge()?;
    let echo =
        Server::start(&scene.stage.engine, Some(&scene.sandbox), LOOPBACK, Manner::Echo).await?;
    let mut held = None;
    for round in 0..4 {
        for route in ROUTES {
            let mut forward =
                Forward::to(&scene.stage.cri, route, &scene.sandbox, &[echo.port]).await?;
            let mut line = forward.connect(echo.port).await?;
            line.writer.send(b"there").await?;
            line.reader.until("there").await?;
            if round == 1 && forward.spdy().is_some() {
                // The client resets one connection, and the session stays open.
                line.writer.reset().await?;
                until_left(&echo).await?;
                echoes(&mut forward, echo.port).await?;
            }
            drop((forward, line));
            until_left(&echo).await.map_err(|failure| Failure(format!("{route:?}: {failure}")))?;
        }
        match held {
            None if round == 0 => held = Some(bridge.descriptors()? + 2),
            None => {}
            Some(held) => bridge.lets_go(held).await?,
        }
    }
    of_the_pod(&scene).await?;
    scene.ends().await
}

/// Stops the pod while a client is connected to a server in one of its containers.
async fn of_the_pod(scene: &Scene) -> Outcome {
    let line = "while :; do nc -l -p 7070 -e cat; done";
    scene.add(&scene.stage.recipes.container("cat", line)).await?;
    let mut open = Vec::new();
    let deadline = Instant::now() + patient(Duration::from_secs(20));
    while open.is_empty() {
        let mut forward =
            Forward::to(&scene.stage.cri, Route::Spdy, &scene.sandbox, &[7070]).await?;
        let mut line = forward.connect(7070).await?;
        line.writer.send(b"there").await?;
        if line.reader.until("there").await.is_ok() {
            open.push((forward, line));
        }
        // The server in the container takes a moment to start listening.
        ensure!(Instant::now() < deadline, "the container never answers");
    }
    scene.stage.cri.stop(&scene.sandbox).await?;
    for (_, line) in &mut open {
        ensure_eq!(line.reader.text().await?, "");
    }
    Ok(())
}

/// If dockbridge is killed or stopped, a connection closes at both ends, and the restarted dockbridge forwards again.
pub(crate) async fn of_dockbridge(world: World) -> Outcome {
    let mut scene = Scene::quiet(&world, "forward_killed").await?;
    let echo =
        Server::start(&scene.stage.engine, Some(&scene.sandbox), LOOPBACK, Manner::Echo).await?;
    for route in [Route::Spdy, Route::Tunnel, Route::WebSocket("v4.channel.k8s.io")] {
        for graceful in [false, true] {
            let ports = [echo.port];
            let mut forward = Forward::to(&scene.stage.cri, route, &scene.sandbox, &ports).await?;
            let mut line = forward.connect(echo.port).await?;
            line.writer.send(b"there").await?;
            line.reader.until("there").await?;
            scene.stage.cri = match graceful {
                true => scene.stage.bridge.restart().await?,
                false => scene.stage.bridge.crash().await?,
            };
            ensure_eq!(line.reader.text().await?, "", "{route:?}");
            until_left(&echo).await?;
            let mut forward = Forward::to(&scene.stage.cri, route, &scene.sandbox, &ports).await?;
            echoes(&mut forward, echo.port).await?;
        }
    }
    scene.ends().await
}

const LOOPBACK: &str = "127.0.0.1:0";
/// A port at which no server listens.
const NOBODY: u16 = 9;
