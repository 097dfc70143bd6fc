//! Tests streams with large amounts of data: every byte arrives, and a slow reader blocks the writer.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dockbridge::wire::cri;
use tokio::time::{Instant, sleep};

use super::Scene;
use crate::support::{
    failure::{Outcome, ensure, ensure_eq, fail},
    mass::Mass,
    patience::patient,
    remote::{Session, USUAL, Wish},
    world::World,
};

/// A client sends a hundred megabytes through `cat`, in both directions at the same time, and into a program
/// that prints their checksum.
pub(crate) async fn a_hundred_megabytes(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "bulk").await?;
    let mass = Arc::new(Mass::new(1, 100 << 20));
    let sum = mass.sum().await?;
    for way in USUAL {
        let begun = Instant::now();
        let mut session =
            Session::exec(&scene.stage.cri, way, &scene.container, &["cat"], Wish::Pipes).await?;
        let sending = send(&mut session, Arc::clone(&mass));
        mass.receive(&mut session.stdout, true).await?;
        sending.await??;
        ensure_eq!(session.collect().await?.code()?, 0);
        println!("  {way:?}: 100 MiB each way in {:.1} s", begun.elapsed().as_secs_f32());
        let line = "sha256sum; sha256sum </dev/null >&2";
        let mut session =
            Session::shell(&scene.stage.cri, way, &scene.container, line, Wish::Pipes).await?;
        let sending = send(&mut session, Arc::clone(&mass));
        let ended = session.collect().await?;
        sending.await??;
        ensure!(ended.stdout.starts_with(&sum), "{way:?}: {:?}", ended.stdout);
        ensure!(ended.stderr.starts_with("e3b0c442"), "{way:?}: {:?}", ended.stderr);
    }
    scene.ends().await
}

fn send(session: &mut Session, mass: Arc<Mass>) -> tokio::task::JoinHandle<Outcome> {
    let stdin = session.take_stdin();
    tokio::spawn(async move {
        let Some(stdin) = stdin else { fail!("no stdin") };
        mass.send(&stdin).await?;
        stdin.finish().await
    })
}

/// If the client does not read the output of a fast process, the process waits and dockbridge's memory grows by
/// less than [`GROWTH`]. The output arrives when the client reads again.
pub(crate) async fn a_slow_reader(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "slow_reader").await?;
    let bridge = scene.bridge()?;
    for (number, way) in USUAL.into_iter().enumerate() {
        let id = scene.add(&counted(&scene, &format!("writer{number}"))).await?;
        let count = scene.stage.folders.shared.join("written");
        fs::write(&count, "")?;
        let line = "while head -c 65521 /dev/zero; do printf x >>/shared/written; done";
        let before = bridge.resident()?;
        let mut session = Session::shell(&scene.stage.cri, way, &id, line, Wish::Output).await?;
        until_still(|| Ok(fs::metadata(&count).ok().map(|file| file.len()))).await?;
        let grown = bridge.resident()?.saturating_sub(before);
        println!("  {way:?}: {grown} KiB more while the writer waits");
        ensure!(grown < GROWTH, "{way:?}: dockbridge grew by {grown} KiB");
        let mut read = 0;
        while read < 64 << 20 {
            read += session.stdout.next().await?.map_or(0, |piece| piece.len());
        }
        ensure!(bridge.resident()?.saturating_sub(before) < GROWTH, "{way:?}: grew after all");
        drop(session);
        // After the client has disconnected, the writing process fails at its pipe or waits forever.
        scene.stage.cri.stop_container(&id, 1).await?;
    }
    scene.ends().await
}

/// The request for a container that mounts the story's shared directory, in which processes record their progress.
fn counted(scene: &Scene, name: &str) -> cri::ContainerConfig {
    let mut container = scene.stage.recipes.sleeper(name);
    container.mounts = vec![cri::Mount {
        container_path: "/shared".to_owned(),
        host_path: scene.stage.folders.shared.display().to_string(),
        ..Default::default()
    }];
    container
}

/// If a process does not read its input, its client waits and dockbridge's memory grows by less than [`GROWTH`].
pub(crate) async fn a_deaf_process(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "deaf_process").await?;
    let bridge = scene.bridge()?;
    for way in USUAL {
        let before = bridge.resident()?;
        let command = ["sleep", "21212"];
        let mut session =
            Session::exec(&scene.stage.cri, way, &scene.container, &command, Wish::Pipes).await?;
        let sent = Arc::<AtomicU64>::default();
        let (stdin, counter) = (session.take_stdin(), Arc::clone(&sent));
        let sending = tokio::spawn(async move {
            let piece = vec![b'x'; 32 << 10];
            while let Some(stdin) = &stdin
                && stdin.send(&piece).await.is_ok()
            {
                counter.fetch_add(32 << 10, Ordering::Relaxed);
            }
        });
        until_still(|| Ok(Some(sent.load(Ordering::Relaxed)))).await?;
        let grown = bridge.resident()?.saturating_sub(before);
        println!("  {way:?}: {} bytes taken, {grown} KiB more", sent.load(Ordering::Relaxed));
        ensure!(grown < GROWTH, "{way:?}: dockbridge grew by {grown} KiB");
        drop(session);
        sending.abort();
    }
    scene.ends().await
}

/// Waits until the number is above 0 and has not changed for a second.
pub(crate) async fn until_still(number: impl Fn() -> Outcome<Option<u64>>) -> Outcome {
    let deadline = Instant::now() + patient(Duration::from_secs(60));
    let (mut last, mut same) = (None, 0);
    while same < 20 {
        if Instant::now() > deadline {
            fail!("it never stands still: {last:?}");
        }
        sleep(Duration::from_millis(50)).await;
        let now = number()?;
        same = if now == last && now.is_some_and(|now| now > 0) { same + 1 } else { 0 };
        last = now;
    }
    Ok(())
}

/// The memory in KiB that the buffers of one stalled stream may need, also in a debug build.
pub(crate) const GROWTH: u64 = 16 << 10;
