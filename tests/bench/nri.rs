//! Measures the cost of NRI: lives of pods with NRI off, with NRI on and no plugin, and with a plugin that changes
//! nothing. An engine has one dockbridge at a time, so the dockbridge with NRI and the one without alternate.

use crate::{
    amount,
    lives::CriLife,
    nri_plugin::Plugin,
    support::{failure::Outcome, stage::Stage, world::World},
    table::Table,
};

/// Measures the lives of pods with and without NRI, alternating.
pub(crate) async fn measure(world: &World) -> Outcome {
    let mut off = Stage::cni(world, "nri_off").await?;
    off.bridge.stop().await?;
    let (mut on, socket) = Stage::with_plugins(world, "nri_on").await?;
    on.bridge.stop().await?;
    let mut table = Table::default();
    for turn in 0..amount("NRI_TURNS", 10) {
        off.bridge.spawn().await?;
        off.cri = off.bridge.cri().await?;
        // After each start of a dockbridge, the first pod of each kind only warms caches and connections, and
        // is not counted.
        for life in 0..=LIVES {
            let counted = if life > 0 { &mut table } else { &mut Table::default() };
            live(OFF, &off, turn * 10 + life, counted).await?;
        }
        off.bridge.stop().await?;
        on.bridge.spawn().await?;
        on.cri = on.bridge.cri().await?;
        for life in 0..=LIVES {
            let counted = if life > 0 { &mut table } else { &mut Table::default() };
            live(ON, &on, turn * 10 + life, counted).await?;
            let plugin = Plugin::logger(&socket).await;
            live(LOGGER, &on, turn * 10 + life, counted).await?;
            let told = plugin.methods().len();
            assert!(told > 10, "the plugin was told of {told} events");
            drop(plugin);
        }
        on.bridge.stop().await?;
    }
    table.print("what NRI costs");
    // A difference below these limits, in milliseconds, cannot be measured: two medians of the same measurement can
    // differ by as much.
    table.wants_added(ON, OFF, 1.0);
    table.wants_added(LOGGER, OFF, 2.0);
    for mut stage in [off, on] {
        stage.bridge.spawn().await?;
        stage.leaves_nothing().await?;
    }
    Ok(())
}

async fn live(who: &'static str, stage: &Stage, round: u32, table: &mut Table) -> Outcome {
    CriLife::new(who, &stage.cri, &stage.recipes).round(round, table).await
}

const OFF: &str = "off";
const ON: &str = "idle";
const LOGGER: &str = "logger";
/// How many pods of each kind (`OFF`, `ON`, `LOGGER`) are counted after each start of a dockbridge.
const LIVES: u32 = 4;
