//! Tests dockbridge with an engine that answers inspects of containers late, never, or with errors.

pub(crate) mod debug_state;
pub(crate) mod expected;
pub(crate) mod files;
pub(crate) mod others;
pub(crate) mod pods;
pub(crate) mod size;
pub(crate) mod watch;

use std::time::Duration;

use dockbridge::wire::cri::ContainerState as C;
use rand::{Rng, rngs::StdRng, seq::SliceRandom};
use tokio::time::{Instant, sleep};

use self::{
    debug_state::{is_listed_only, uninspected_objects},
    expected::Expected,
    files::Files,
    pods::{Node, PORT},
    size::Size,
    watch::{Heard, Watch},
};
use crate::support::{
    cri::Cri,
    failure::{Outcome, ensure, ensure_eq},
    http,
    random::seeded,
    slow_proxy::{Seen, SlowAnswers, SlowProxy},
    stage::Stage,
    world::World,
};

/// On a node with several pods, dockbridge is killed. When dockbridge starts again, the engine answers inspects of most
/// containers slowly, of some never, and of some with a failure. From the first list on, dockbridge lists all pods and
/// containers as before.
pub(crate) async fn first_answers_are_true(world: World) -> Outcome {
    let (size, mut random) = (Size::stated(), seeded());
    println!("  {size:?}");
    let proxy = SlowProxy::start(&world.root.join("tmp/slow.sock"), &world.docker)?;
    let mut stage = Stage::behind(&world, "first_answers", proxy.socket()).await?;
    let begun = Instant::now();
    let node = Node::gather(&mut stage, size.pods).await?;
    node.until_logged("").await?;
    let (noted, kept) = (Expected::take(&stage.cri).await?, Files::of(&stage).await?);
    let took = begun.elapsed().as_secs_f32();
    println!("  {:?}, {} files kept, made in {took:.1} s", noted.states(), kept.files());
    let mut said = String::new();
    for round in 1..=size.restarts {
        let slow = slow_answers(&mut random, &node, size);
        let mut faults = restart(&mut stage, &proxy, (&node, &noted), (&slow, size)).await?;
        said += &format!("round {round}\n");
        let after = [
            noted.until_told_again(&stage.cri).await,
            works(&stage, &node, &format!("round {round}")).await,
            node.until_logged(&said).await,
            kept.until_there_again(&stage).await,
        ];
        faults.extend(after.into_iter().filter_map(|it| Some(it.err()?.0)));
        ensure!(faults.is_empty(), "restart {round}:\n  {}", faults.join("\n  "));
    }
    node.leave(&stage.cri).await?;
    stage.leaves_nothing().await
}

/// Chooses the proxy's answers: each inspect gets a delay, some inspects of pods and containers hang, and some fail.
fn slow_answers(random: &mut StdRng, node: &Node, size: Size) -> SlowAnswers {
    let mut slow = SlowAnswers::default();
    let (pods, containers) = node.ids();
    for mut ids in [pods, containers] {
        for id in &ids {
            let delay = random.random_range(Duration::ZERO..=size.longest);
            slow.delays.insert((*id).to_owned(), delay);
        }
        ids.shuffle(random);
        let odd = (ids.len() / 20).max(1);
        slow.hanging.extend(ids[..odd].iter().map(|id| (*id).to_owned()));
        slow.failing.extend(ids[odd..odd * 2].iter().map(|id| (*id).to_owned()));
    }
    slow
}

/// Kills dockbridge, makes the engine slow, and starts dockbridge. Waits until all pods and containers whose inspects
/// neither hang nor fail were inspected, and some time longer. Returns failures and wrong answers.
async fn restart(
    stage: &mut Stage,
    proxy: &SlowProxy,
    (node, noted): (&Node, &Expected),
    (slow, size): (&SlowAnswers, Size),
) -> Outcome<Vec<String>> {
    stage.bridge.kill().await?;
    proxy.slow(slow.clone());
    stage.bridge.launch()?;
    let watch = Watch::begin(stage.bridge.socket(), noted);
    let meanwhile = async {
        let came = watch.first().await?;
        let begun = Instant::now();
        let cri = stage.bridge.cri().await?;
        let wrong = wrong_statuses(&cri, (node, noted), slow).await;
        let looked =
            |seen: &Seen| slow.delays.keys().all(|id| !ends(slow, id) || seen.of(id).answered > 0);
        proxy.until(size.longest * 10 + LOOKS_WITHIN, looked).await?;
        let looks = begun.elapsed();
        // This sleep gives dockbridge time to process the last answers, and perhaps to give up hanging inspects.
        sleep((size.longest * 3 / 2).saturating_sub(looks) + WELL_AFTER).await;
        Outcome::Ok((came, looks, wrong))
    };
    let (meanwhile, heard) = watch.during(meanwhile).await;
    proxy.quick();
    stage.cri = stage.bridge.cri().await?;
    let Heard { answers, wrong, refusals, mut faults, .. } = heard;
    match meanwhile {
        Ok((came, looks, statuses)) => {
            let (came, looks) = (came.as_secs_f32(), looks.as_secs_f32());
            println!(
                "  first list after {came:.2} s and {refusals} refusals; {answers} lists, {wrong} of \
                 them wrong; all looks {looks:.1} s later"
            );
            faults.extend(statuses);
        }
        Err(failure) => faults.push(failure.0),
    }
    Ok(faults)
}

/// Whether an inspect of the pod or container `id` succeeds.
fn ends(slow: &SlowAnswers, id: &str) -> bool {
    !slow.hanging.contains(id) && !slow.failing.contains(id)
}

/// Compares the statuses of three containers (running, ended, and with a hanging inspect) with the recorded statuses.
async fn wrong_statuses(
    cri: &Cri,
    (node, noted): (&Node, &Expected),
    slow: &SlowAnswers,
) -> Vec<String> {
    let (_, containers) = node.ids();
    let first = |wanted: &dyn Fn(&str) -> bool| containers.iter().copied().find(|id| wanted(id));
    let of = |state| first(&|id| ends(slow, id) && noted.container_is(id, state));
    let hanging = first(&|id| slow.hanging.contains(id));
    let (runs, ended, hangs) = tokio::join!(
        noted.wrong_status(cri, of(C::ContainerRunning), false),
        noted.wrong_status(cri, of(C::ContainerExited), false),
        noted.wrong_status(cri, hanging, true),
    );
    [runs, ended, hangs].into_iter().flatten().collect()
}

/// Runs a command that writes `line` to a container's log, and checks that the pod answers at its IP and its host port.
async fn works(stage: &Stage, node: &Node, line: &str) -> Outcome {
    let (pod, web) = node.web();
    let command = format!("echo {line} > /proc/1/fd/1; cat /www/index.html");
    let said = stage.cri.exec_sync(&web.id, &["sh", "-c", &command], 10).await?;
    ensure_eq!(String::from_utf8_lossy(&said.stdout), "dockbridge world\n");
    let ip = stage.cri.sandbox(&pod.id).await?.network.unwrap_or_default().ip;
    for address in [format!("{ip}:80"), format!("127.0.0.1:{PORT}")] {
        ensure!(http::get(&address).await?.contains("dockbridge world"), "no answer of {address}");
    }
    Ok(())
}

/// While inspects of a pod or container hang, dockbridge lists it with its state, and `dockbridge debug state` shows
/// that it was not inspected.
pub(crate) async fn what_hangs_is_listed(world: World) -> Outcome {
    let proxy = SlowProxy::start(&world.root.join("tmp/slow.sock"), &world.docker)?;
    let mut stage = Stage::behind(&world, "what_hangs", proxy.socket()).await?;
    let node = Node::gather(&mut stage, 2).await?;
    let noted = Expected::take(&stage.cri).await?;
    // The inspects of these three hang: a ready pod, a running container, and a container that has ended with an error.
    let hanging =
        [&node.pods[0].id, &node.pods[0].containers[0].id, &node.pods[1].containers[1].id];
    let slow =
        SlowAnswers { hanging: hanging.into_iter().cloned().collect(), ..SlowAnswers::default() };
    stage.bridge.kill().await?;
    proxy.slow(slow.clone());
    stage.bridge.launch()?;
    let watch = Watch::begin(stage.bridge.socket(), &noted);
    let meanwhile = async {
        let came = watch.first().await?;
        let wrong = noted.wrong_status(&stage.bridge.cri().await?, Some(hanging[1]), true).await;
        ensure_eq!(wrong, None);
        let given_up = |seen: &Seen| hanging.iter().all(|id| seen.of(id).given_up > 0);
        proxy.until(LOOKS_WITHIN, given_up).await?;
        sleep(WELL_AFTER).await;
        Outcome::Ok(came)
    };
    let (came, heard) = watch.during(meanwhile).await;
    stage.cri = stage.bridge.cri().await?;
    ensure!(heard.faults.is_empty(), "{}", heard.faults.join("\n  "));
    println!("  first list after {:.2} s, {} lists", came?.as_secs_f32(), heard.answers);
    for id in hanging {
        ensure!(is_listed_only(&stage, id).await?, "{id} is shown as if it had been looked at");
    }
    ensure!(uninspected_objects(&stage).await? >= 1, "nothing is counted");
    proxy.quick();
    noted.until_told_again(&stage.cri).await?;
    for id in hanging {
        ensure!(!is_listed_only(&stage, id).await?, "{id} is shown as if nobody had looked at it");
    }
    ensure_eq!(uninspected_objects(&stage).await?, 0);
    node.leave(&stage.cri).await?;
    stage.leaves_nothing().await
}

/// How long the tests wait for inspects, beyond the delays of the proxy. This is longer than dockbridge waits for an
/// inspect that hangs.
const LOOKS_WITHIN: Duration = Duration::from_secs(30);
/// Long enough for dockbridge to process the last inspect, and for [`Watch`] to compare some later lists.
const WELL_AFTER: Duration = Duration::from_millis(500);
