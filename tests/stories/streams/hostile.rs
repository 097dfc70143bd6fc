//! Tests that dockbridge still serves other clients while clients send garbage.

use std::time::Duration;

use rand::{Rng, RngCore, rngs::StdRng};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{Scene, bulk::GROWTH};
use crate::support::{
    channel::patience,
    failure::{Failure, Outcome, ensure, ensure_eq},
    patience::patient,
    random::seeded,
    remote::{SPDY, Session, USUAL, Wish, exec_request},
    spdy::{client::Spdy, frame, headers::Deflater},
    upgrade::{self, Place},
    world::World,
};

/// Clients send garbage instead of requests, SPDY frames and WebSocket frames, while other execs run.
pub(crate) async fn bytes(world: World) -> Outcome {
    let mut random = seeded();
    let scene = Scene::quiet(&world, "hostile").await?;
    let (cri, bridge) = (&scene.stage.cri, scene.bridge()?);
    let held = scene.descriptors().await?;
    let mut witnesses = Vec::new();
    for way in USUAL {
        let witness = Session::exec(cri, way, &scene.container, &["cat"], Wish::Pipes).await?;
        witnesses.push(witness);
    }
    still_served(&mut witnesses).await?;
    let before = bridge.resident()?;
    requests(&scene, &mut random).await?;
    still_served(&mut witnesses).await?;
    frames(&scene, &mut random).await?;
    still_served(&mut witnesses).await?;
    messages(&scene, &mut random).await?;
    still_served(&mut witnesses).await?;
    // dockbridge finds the processes of the witnesses some time after their start, and keeps descriptors of these
    // processes, so the descriptors are counted without the witnesses.
    drop(witnesses);
    bridge.lets_go(held + 3).await?;
    let grown = bridge.resident()?.saturating_sub(before);
    println!("  {grown} KiB more after all of it");
    ensure!(grown < 2 * GROWTH, "dockbridge grew by {grown} KiB");
    let mut last = Session::exec(cri, SPDY, &scene.container, &["true"], Wish::Output).await?;
    ensure_eq!(last.collect().await?.code()?, 0);
    scene.ends().await
}

/// dockbridge does not wait forever for clients that stop in the middle, after half a request or half of the streams.
pub(crate) async fn silence(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "silence").await?;
    let bridge = scene.bridge()?;
    let held = scene.descriptors().await?;
    let place = fresh(&scene).await?;
    let mut half = TcpStream::connect(&place.authority).await?;
    half.write_all(format!("POST {} HTTP/1.1\r\nConn", place.path).as_bytes()).await?;
    let spdy = upgraded(&scene).await?;
    let _error = spdy.open(&[("streamtype", "error")]).await?;
    let _stdin = spdy.open(&[("streamtype", "stdin")]).await?;
    spdy.closed(patient(CREATION)).await?;
    let mut rest = Vec::new();
    // dockbridge may answer the half request, or only close the connection.
    drop(
        timeout(patient(CREATION), half.read_to_end(&mut rest))
            .await
            .map_err(|_late| Failure("half a request holds its connection for good".to_owned()))?,
    );
    bridge.lets_go(held + 3).await?;
    scene.ends().await
}

async fn still_served(witnesses: &mut [Session]) -> Outcome {
    for witness in witnesses {
        witness.send("still there\n").await?;
        ensure_eq!(witness.stdout.until("\n").await?, "still there\n");
    }
    Ok(())
}

async fn fresh(scene: &Scene) -> Outcome<Place> {
    let request = exec_request(&scene.container, &["cat"], Wish::Pipes);
    Place::of(&scene.stage.cri.exec(&request).await?)
}

fn noise(random: &mut StdRng, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; random.random_range(1..most)];
    random.fill_bytes(&mut bytes);
    bytes
}

/// Sends bytes and, with `wait`, waits until dockbridge closes the connection.
async fn throw(mut stream: TcpStream, bytes: &[u8], wait: bool) -> Outcome {
    // dockbridge may close the connection before all bytes are sent.
    stream.write_all(bytes).await.unwrap_or_default();
    if wait {
        let mut answer = Vec::new();
        drop(timeout(patience(), stream.read_to_end(&mut answer)).await.map_err(|_late| {
            Failure(format!("open {:?} after {} bytes of garbage", patience(), bytes.len()))
        })?);
    }
    Ok(())
}

async fn requests(scene: &Scene, random: &mut StdRng) -> Outcome {
    let place = fresh(scene).await?;
    for _ in 0..200 {
        throw(TcpStream::connect(&place.authority).await?, &noise(random, 4096), false).await?;
    }
    let endless = format!("GET {} HTTP/1.1\r\nx: {}", place.path, "y".repeat(4 << 20));
    throw(TcpStream::connect(&place.authority).await?, endless.as_bytes(), true).await?;
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100_000));
    throw(TcpStream::connect(&place.authority).await?, many.as_bytes(), true).await?;
    let body =
        format!("POST {} HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999\r\n\r\n", place.path);
    throw(TcpStream::connect(&place.authority).await?, body.as_bytes(), false).await
}

/// Sends random bytes and invalid frames after a valid upgrade. Each invalid frame in the list `wrong` must end
/// the connection.
async fn frames(scene: &Scene, random: &mut StdRng) -> Outcome {
    for _ in 0..30 {
        let spdy = upgraded(scene).await?;
        spdy.send(noise(random, 20_000)).await?;
    }
    let bomb = Deflater::new()?.raw(&vec![0; 64 << 20])?;
    let cut = Deflater::new()?.raw(&[0, 0, 0, 9, 0, 0, 0, 1])?;
    let wrong: Vec<(&str, Vec<u8>)> = vec![
        ("a header bomb", frame::open(1, &bomb)),
        ("a block that ends early", frame::open(1, &cut)),
        ("a block that is none", frame::open(1, &noise(random, 2000))),
        ("the longest frame", frame::control(1, 0, &vec![0; 0x00ff_ffff])),
        ("an empty SYN_STREAM", frame::control(1, 0, &[])),
        ("an empty RST_STREAM", frame::control(3, 0, &[])),
        ("an empty PING", frame::control(6, 0, &[])),
        ("another version", [&[0x80, 9, 0, 1, 0, 0, 0, 4], &[0; 4][..]].concat()),
    ];
    for (what, bytes) in wrong {
        let spdy = upgraded(scene).await?;
        spdy.send(bytes).await?;
        spdy.closed(patience()).await.map_err(|failure| Failure(format!("{what}: {failure}")))?;
    }
    harmless(scene).await?;
    crowd(scene).await
}

/// Sends unusual frames that do not violate the protocol, so dockbridge must still answer a ping afterwards.
async fn harmless(scene: &Scene) -> Outcome {
    let spdy = upgraded(scene).await?;
    spdy.send(frame::data(77, false, b"to nobody")).await?;
    spdy.send(frame::reset(77, 1)).await?;
    spdy.send(frame::control(4, 0, &[0, 0, 0, 0])).await?;
    spdy.send(frame::control(9, 0, &[0, 0, 0, 1, 0, 0, 0, 9])).await?;
    spdy.send(frame::go_away()).await?;
    spdy.ping(7).await
}

/// Opens far more streams than a client needs. dockbridge may refuse the streams or close the connection.
async fn crowd(scene: &Scene) -> Outcome {
    let spdy = upgraded(scene).await?;
    for _ in 0..5000 {
        if spdy.open_unanswered(&[("streamtype", "stdin")]).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn upgraded(scene: &Scene) -> Outcome<Spdy> {
    Ok(Spdy::connect(&fresh(scene).await?, &["v4.channel.k8s.io"]).await?.0)
}

async fn messages(scene: &Scene, random: &mut StdRng) -> Outcome {
    let masked = |head: &[u8], payload: &[u8]| [head, &[0; 4], payload].concat();
    let wrong: Vec<Vec<u8>> = vec![
        // The invalid frames are: not masked, a reserved operation, a length of 2^63, a ping that is too
        // long, and a continuation without a start.
        vec![0x82, 2, 0, b'x'],
        masked(&[0x83, 0x82], &[0, b'x']),
        [&[0x82, 0xff, 0x80][..], &[0; 7], &[0; 4]].concat(),
        masked(&[0x89, 0xfe, 0, 200], &[0; 200]),
        masked(&[0x80, 0x82], &[0, b'x']),
    ];
    for bytes in wrong {
        throw(shaken(scene, "v5.channel.k8s.io").await?, &bytes, true).await?;
    }
    for _ in 0..30 {
        let stream = shaken(scene, "v4.base64.channel.k8s.io").await?;
        throw(stream, &noise(random, 20_000), false).await?;
    }
    // These messages are complete but have no meaning: without a channel, to an unknown channel, to an output
    // channel, without a terminal size, and a close signal without a channel or for an unknown channel.
    for payload in [&b""[..], &[9, b'x'], &[1, b'x'], &[4, b'{'], &[255], &[255, 77]] {
        let length = 0x80 | u8::try_from(payload.len())?;
        let stream = shaken(scene, "v5.channel.k8s.io").await?;
        throw(stream, &masked(&[0x82, length], payload), false).await?;
    }
    Ok(())
}

async fn shaken(scene: &Scene, protocol: &str) -> Outcome<TcpStream> {
    let headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("Sec-WebSocket-Protocol", protocol),
    ];
    let answered = upgrade::ask(&fresh(scene).await?, "GET", &headers).await?;
    ensure_eq!(answered.status, 101);
    Ok(answered.stream)
}

/// Twice the half minute in which a client must open its streams, for slow machines.
const CREATION: Duration = Duration::from_secs(60);
