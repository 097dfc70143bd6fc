//! Measures the cost of `dockbridge-runtime` for a container that does not need it, and how long `dockbridge-runtime`
//! runs before it becomes runc. The benchmark makes the same engine calls with runc and with `dockbridge-runtime`,
//! alternating.

use std::{process::Command, time::Instant};

use dockbridge::model::oci_edits::RUNTIME;
use serde_json::json;

use crate::{
    amount,
    raw::RawEngine,
    support::{
        bridge::program,
        failure::{Outcome, ensure},
        world::World,
    },
    table::Table,
};

/// Measures only in a world whose engine has `dockbridge-runtime`.
pub(crate) async fn measure(world: &World, engine: &RawEngine) -> Outcome {
    if !world.has_oci_runtime {
        return Ok(());
    }
    let rounds = amount("ROUNDS", 20);
    let (mut table, mut executions) = (Table::default(), Table::default());
    // The first round only warms caches, so its engine calls are not counted.
    for round in 0..=rounds {
        let mut times = Table::default();
        for (who, runtime) in [(OURS, RUNTIME), (RUNC, "runc")] {
            let host = json!({"Runtime": runtime, "NetworkMode": "none"});
            let body = json!({"Image": world.image, "Cmd": ["sleep", "600"], "HostConfig": host});
            let id = engine.create(&format!("{who}-{round}"), &body.to_string()).await?;
            let step = Instant::now();
            engine.start(&id).await?;
            times.since(who, "Start", step);
            let step = Instant::now();
            engine.remove(&id).await?;
            times.since(who, "Remove", step);
        }
        execute(&mut executions)?;
        if round > 0 {
            table.merge(times);
        }
    }
    table.print("a container without edits");
    table.wants_added(OURS, RUNC, 3.0);
    executions.print("the program, once");
    executions.wants_added(OURS, TRUE, 2.0);
    Ok(())
}

/// Measures `dockbridge-runtime` when it becomes the program `true` instead of runc, and `true` alone.
fn execute(times: &mut Table) -> Outcome {
    for (who, command, words) in [
        (OURS, program(), &["runtime", "--dockbridge-runtime", TRUE, "state", "none"][..]),
        (TRUE, TRUE.into(), &[]),
    ] {
        let begun = Instant::now();
        let ended = Command::new(command).args(words).status()?;
        times.since(who, "Executed", begun);
        ensure!(ended.success(), "{who}: {ended}");
    }
    Ok(())
}

const OURS: &str = "dockbridge";
const RUNC: &str = "runc";
const TRUE: &str = "/bin/true";
