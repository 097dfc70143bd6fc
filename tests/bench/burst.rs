//! Starts many pods at once, as after the drain of another node. Measures the time and the processor time until all
//! pods are running, and the time to remove all pods. The same engine calls and plugin runs without dockbridge are
//! measured for comparison.

use std::{collections::BTreeMap, time::Instant};

use futures_util::future::try_join_all;

use crate::{
    amount,
    daemons::Watch,
    lives::{RAW, RawLife},
    support::{failure::Outcome, stage::Stage},
    table::Table,
};

type Seconds = BTreeMap<&'static str, f64>;

/// Measures thirty pods with two containers each, several times. `BURST` changes the number of pods, and `BURSTS` the
/// number of rounds.
pub(crate) async fn measure(stage: &Stage, raw: &RawLife) -> Outcome {
    let pods = amount("BURST", 30);
    let (mut table, mut used) = (Table::default(), Vec::new());
    let watch = Watch::of(stage).await?;
    // The first round only warms caches and is not counted.
    for round in 0..=amount("BURSTS", 5) {
        let mut times = Table::default();
        let ours = ours(stage, &watch, (round, pods), &mut times).await?;
        stage.bridge.freeze()?;
        let theirs = theirs(raw, &watch, (round, pods), &mut times).await;
        stage.bridge.thaw()?;
        used = vec![(OURS, ours), (RAW, theirs?)];
        if round > 0 {
            table.merge(times);
        }
    }
    table.print(&format!("{pods} pods × 2 at once"));
    for (who, seconds) in used {
        print!("CPU seconds, the last up, {who:<12}");
        seconds.iter().for_each(|(process, seconds)| print!("{process} {seconds:.2}  "));
        println!();
    }
    table.wants_ratio(UP, RAW, 1.05);
    println!();
    Ok(())
}

async fn ours(
    stage: &Stage,
    watch: &Watch,
    (round, pods): (u32, u32),
    table: &mut Table,
) -> Outcome<Seconds> {
    let (cri, before, begun) = (&stage.cri, watch.used()?, Instant::now());
    let up = try_join_all((0..pods).map(async |number| {
        let pod = stage.recipes.pod(&format!("burst{round}-{number}"));
        let sandbox = cri.run(&pod).await?;
        stage.up(&sandbox, &pod, &NAMES.map(|name| stage.recipes.sleeper(name))).await?;
        Outcome::Ok(sandbox)
    }));
    let sandboxes = up.await?;
    table.since(OURS, UP, begun);
    let (used, begun) = (difference(&before, &watch.used()?), Instant::now());
    try_join_all(sandboxes.iter().map(|sandbox| cri.end(sandbox))).await?;
    table.since(OURS, DOWN, begun);
    Ok(used)
}

async fn theirs(
    raw: &RawLife,
    watch: &Watch,
    (round, pods): (u32, u32),
    table: &mut Table,
) -> Outcome<Seconds> {
    let (before, begun) = (watch.used()?, Instant::now());
    let up = (0..pods).map(|number| raw.up(format!("raw-burst{round}-{number}"), NAMES));
    let lives = try_join_all(up).await?;
    table.since(RAW, UP, begun);
    let (used, begun) = (difference(&before, &watch.used()?), Instant::now());
    try_join_all(lives.iter().map(|life| raw.down(life))).await?;
    table.since(RAW, DOWN, begun);
    Ok(used)
}

/// The processor time of each daemon between two readings.
fn difference(before: &Seconds, after: &Seconds) -> Seconds {
    let of = |(who, seconds): (&&'static str, &f64)| {
        (*who, seconds - before.get(who).copied().unwrap_or_default())
    };
    after.iter().map(of).collect()
}

const OURS: &str = "dockbridge";
const UP: &str = "all up";
const DOWN: &str = "all gone";
const NAMES: [&str; 2] = ["one", "two"];
