//! Many pods at once, as after a drain: from the first call until all are up, and until all are gone,
//! against the same engine calls and plugin runs at once.

use std::time::Instant;

use futures_util::future::try_join_all;

use crate::{
    amount,
    lives::{RAW, RawLife},
    support::{failure::Outcome, stage::Stage},
    table::Table,
};

/// Thirty pods of two containers, several times.
pub(crate) async fn measure(stage: &Stage, raw: &RawLife) -> Outcome {
    let pods = amount("BURST", 30);
    let mut table = Table::default();
    // As everywhere: the first round is not counted.
    for round in 0..=amount("BURSTS", 5) {
        let mut times = Table::default();
        ours(stage, (round, pods), &mut times).await?;
        stage.bridge.freeze()?;
        let outcome = theirs(raw, (round, pods), &mut times).await;
        stage.bridge.thaw()?;
        outcome?;
        if round > 0 {
            table.merge(times);
        }
    }
    table.print(&format!("{pods} pods × 2 at once"));
    table.wants_ratio(UP, RAW, 1.05);
    println!();
    Ok(())
}

async fn ours(stage: &Stage, (round, pods): (u32, u32), table: &mut Table) -> Outcome {
    let (cri, begun) = (&stage.cri, Instant::now());
    let up = try_join_all((0..pods).map(async |number| {
        let pod = stage.recipes.pod(&format!("burst{round}-{number}"));
        let sandbox = cri.run(&pod).await?;
        stage.up(&sandbox, &pod, &NAMES.map(|name| stage.recipes.sleeper(name))).await?;
        Outcome::Ok(sandbox)
    }));
    let sandboxes = up.await?;
    table.since(OURS, UP, begun);
    let begun = Instant::now();
    try_join_all(sandboxes.iter().map(|sandbox| cri.end(sandbox))).await?;
    table.since(OURS, DOWN, begun);
    Ok(())
}

async fn theirs(raw: &RawLife, (round, pods): (u32, u32), table: &mut Table) -> Outcome {
    let begun = Instant::now();
    let up = (0..pods).map(|number| raw.up(format!("raw-burst{round}-{number}"), NAMES));
    let lives = try_join_all(up).await?;
    table.since(RAW, UP, begun);
    let begun = Instant::now();
    try_join_all(lives.iter().map(|life| raw.down(life))).await?;
    table.since(RAW, DOWN, begun);
    Ok(())
}

const OURS: &str = "dockbridge";
const UP: &str = "all up";
const DOWN: &str = "all gone";
const NAMES: [&str; 2] = ["one", "two"];
