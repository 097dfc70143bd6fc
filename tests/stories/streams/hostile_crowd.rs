//! Tests many hostile streams from several clients, in full size nearly as many as dockbridge allows.
//! dockbridge's memory stays below a limit, dockbridge serves other clients, and frees the memory afterwards.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{Instant, sleep},
};
use tokio_util::task::AbortOnDropHandle;

use super::Scene;
use crate::support::{
    failure::{Outcome, ensure, ensure_eq},
    patience::{Looks, patient},
    process::Process,
    remote::{SPDY, Session, USUAL, Wish, exec_request},
    spdy::{frame, headers::Deflater},
    stated::is_full_size,
    upgrade::{self, Place},
    world::World,
};

/// The way in which a hostile client behaves.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// The client sends to a process that does not read.
    UnreadStdin,
    /// The client does not read the output of a process.
    UnreadStdout,
    /// The client opens only one of two SPDY streams, or sends only the beginning of a WebSocket message.
    HalfOpen,
    Idle,
}

/// Clients of each kind open many streams over SPDY and WebSocket, for three containers and a pod, and a command
/// in another container still runs. In full size, the clients use nearly all streams that dockbridge allows, and
/// a container gets no more streams than its limit.
pub(crate) async fn fills_the_places(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "hostile_crowd").await?;
    let bridge = scene.bridge()?;
    let mut users = Vec::new();
    for number in 0..USERS {
        users.push(scene.add(&scene.stage.recipes.sleeper(&format!("user{number}"))).await?);
    }
    answers(&scene).await?;
    let before = bridge.resident()?;
    let most = Most::watch(bridge);
    let mut held = Vec::new();
    for round in 0..if is_full_size() { ROUNDS } else { 12 } {
        for (number, manner) in MANNERS.into_iter().enumerate() {
            let user = &users[(round * MANNERS.len() + number) % USERS];
            held.push(over_spdy(&scene, user, manner).await?);
            held.push(over_websocket(&scene, user, manner).await?);
        }
        if round % 25 == 0 {
            answers(&scene).await?;
        }
    }
    if is_full_size() {
        let mut refused = 0;
        for user in users.iter().cycle().take(4 * USERS) {
            match Session::exec(&scene.stage.cri, SPDY, user, &["sleep", "3600"], Wish::Pipes).await
            {
                Ok(session) => held.push(Client::Polite(Box::new(session))),
                Err(_) => refused += 1,
            }
        }
        ensure!(refused >= USERS, "a container has more than its share: {refused} refused");
    }
    // During this pause, the clients' data fills dockbridge's buffers.
    sleep(Duration::from_secs(if is_full_size() { 60 } else { 5 })).await;
    answers(&scene).await?;
    let most = most.end(bridge)?;
    println!("  {} clients: {before} KiB before, at most {most} KiB", held.len());
    ensure!(most < MOST_RESIDENT, "dockbridge has {most} KiB");
    drop(held);
    let since = Instant::now();
    while bridge.resident()? > before + MOST_LEFT {
        ensure!(since.elapsed() < patient(GIVEN_BACK), "{} KiB stay", bridge.resident()? - before);
        sleep(Duration::from_secs(1)).await;
    }
    println!("  {} KiB {:.0?} after they left", bridge.resident()?, since.elapsed());
    answers(&scene).await?;
    // On a busy machine, the engine may still be ending the commands, so the test repeats the stop, as kubelet does.
    let mut looks = Looks::within(Duration::from_secs(300), Duration::from_secs(1));
    for sandbox in scene.stage.cri.sandboxes().await? {
        while let Err(refused) = scene.stage.cri.stop(&sandbox.id).await {
            ensure!(looks.again().await, "{refused}");
        }
    }
    scene.ends().await
}

/// The highest memory usage of a process, measured every second.
struct Most {
    most: Arc<AtomicU64>,
    _watching: AbortOnDropHandle<()>,
}

impl Most {
    fn watch(process: Process) -> Self {
        let most = Arc::<AtomicU64>::default();
        let seen = Arc::clone(&most);
        let watching = tokio::spawn(async move {
            while let Ok(now) = process.resident() {
                seen.fetch_max(now, Ordering::Relaxed);
                sleep(Duration::from_secs(1)).await;
            }
        });
        Self { most, _watching: AbortOnDropHandle::new(watching) }
    }

    fn end(self, process: Process) -> Outcome<u64> {
        Ok(self.most.load(Ordering::Relaxed).max(process.resident()?))
    }
}

/// Checks that another client can still run a command.
async fn answers(scene: &Scene) -> Outcome {
    for way in USUAL {
        let command = ["echo", "here"];
        let mut session =
            Session::exec(&scene.stage.cri, way, &scene.container, &command, Wish::Output).await?;
        let ended = session.collect().await?;
        ensure_eq!((ended.stdout.as_str(), ended.code()?), ("here\n", 0), "{way:?}");
    }
    Ok(())
}

/// The connection of a client, which is open until the value is dropped.
enum Client {
    Hostile { _sending: AbortOnDropHandle<()> },
    Polite(#[expect(dead_code, reason = "it is only held")] Box<Session>),
}

/// A client that sends these bytes, then sends nothing and never reads.
fn hostile(mut stream: TcpStream, bytes: Vec<u8>) -> Client {
    let sending = tokio::spawn(async move {
        stream.write_all(&bytes).await.unwrap_or_default();
        pending::<()>().await;
    });
    Client::Hostile { _sending: AbortOnDropHandle::new(sending) }
}

async fn over_spdy(scene: &Scene, user: &str, manner: Manner) -> Outcome<Client> {
    let (url, protocol) = match manner {
        Manner::UnreadStdin | Manner::UnreadStdout => {
            (command(scene, user, manner).await?, "v4.channel.k8s.io")
        }
        Manner::HalfOpen | Manner::Idle => {
            (scene.stage.cri.port_forward(&scene.sandbox, &[]).await?, "portforward.k8s.io")
        }
    };
    let headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "SPDY/3.1"),
        ("X-Stream-Protocol-Version", protocol),
    ];
    let stream = upgraded(&url, "POST", &headers).await?;
    let mut deflater = Deflater::new()?;
    let mut bytes = Vec::new();
    match manner {
        Manner::Idle => {}
        Manner::HalfOpen => {
            let headers = [("streamtype", "error"), ("port", "80"), ("requestid", "0")];
            bytes.extend(frame::open(1, &deflater.block(&headers)?));
        }
        Manner::UnreadStdin | Manner::UnreadStdout => {
            for (id, kind) in [(1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")] {
                bytes.extend(frame::open(id, &deflater.block(&[("streamtype", kind)])?));
            }
            for _ in 0..UNREAD / PIECE {
                bytes.extend(frame::data(3, false, &[b'x'; PIECE]));
            }
        }
    }
    Ok(hostile(stream, bytes))
}

async fn over_websocket(scene: &Scene, user: &str, manner: Manner) -> Outcome<Client> {
    let headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("Sec-WebSocket-Protocol", "v5.channel.k8s.io"),
    ];
    let stream = upgraded(&command(scene, user, manner).await?, "GET", &headers).await?;
    let length = u64::try_from(UNREAD)?.to_be_bytes();
    // The head of one long WebSocket message, with a mask of zeros.
    let mut bytes = [&[0x82, 0xff][..], &length, &[0; 4]].concat();
    match manner {
        Manner::Idle => bytes.clear(),
        Manner::HalfOpen => bytes.push(0),
        Manner::UnreadStdin | Manner::UnreadStdout => bytes.resize(bytes.len() + UNREAD, 0),
    }
    Ok(hostile(stream, bytes))
}

/// The URL of an exec whose command reads no input.
async fn command(scene: &Scene, user: &str, manner: Manner) -> Outcome<String> {
    let command = match manner {
        Manner::UnreadStdout => ["cat", "/dev/zero"],
        _ => ["sleep", "3600"],
    };
    Ok(scene.stage.cri.exec(&exec_request(user, &command, Wish::Pipes)).await?)
}

async fn upgraded(url: &str, method: &str, headers: &[(&str, &str)]) -> Outcome<TcpStream> {
    let answered = upgrade::ask(&Place::of(url)?, method, headers).await?;
    ensure_eq!(answered.status, 101);
    Ok(answered.stream)
}

const MANNERS: [Manner; 4] =
    [Manner::UnreadStdin, Manner::UnreadStdout, Manner::HalfOpen, Manner::Idle];
const USERS: usize = 3;
/// The number of rounds with eight clients each, six of which run a command. dockbridge allows 250 streams
/// for each container and for the pod.
const ROUNDS: usize = 124;
/// The number of bytes that a client sends to a process that does not read.
const UNREAD: usize = 1 << 20;
const PIECE: usize = 32 << 10;
/// The most memory that dockbridge may use, in KiB.
const MOST_RESIDENT: u64 = 200_000_000 / 1024;
/// The memory in KiB that may stay in use after the clients are gone.
const MOST_LEFT: u64 = 40_000_000 / 1024;
/// A time limit for the return of memory, which dockbridge does every half minute.
const GIVEN_BACK: Duration = Duration::from_secs(60);
