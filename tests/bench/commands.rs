//! Commands in a running container: ExecSync compared with the engine calls that it needs.

use std::time::Instant;

use crate::{
    amount,
    lives::RAW,
    raw::RawEngine,
    support::{failure::Outcome, stage::Stage},
    table::Table,
};

/// Runs `true` many times, alternating between ExecSync and direct engine calls.
pub(crate) async fn measure(stage: &Stage, engine: &RawEngine) -> Outcome<Table> {
    let pod = stage.recipes.pod("commands");
    let sandbox = stage.cri.run(&pod).await?;
    let container = stage.cri.create(&sandbox, &stage.recipes.sleeper("main"), &pod).await?;
    stage.cri.start(&container).await?;
    let mut table = Table::default();
    for round in 0..=amount("COMMANDS", 100) {
        let mut times = Table::default();
        // The second measurement of a round finds warm caches, so each of the two ways comes second in every
        // other round.
        for turn in 0..2 {
            let begun = Instant::now();
            if (round + turn) % 2 == 0 {
                stage.cri.exec_sync(&container, &["true"], 10).await?;
                times.since("dockbridge", STEP, begun);
            } else {
                engine.exec(&container).await?;
                times.since(RAW, STEP, begun);
            }
        }
        if round > 1 {
            table.merge(times);
        }
    }
    stage.cri.end(&sandbox).await?;
    Ok(table)
}

const STEP: &str = "ExecSync true";
