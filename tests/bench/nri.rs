//! What NRI costs: lives of pods with NRI off, with NRI on and no plugin, and with a plugin that only reads
//! events. An engine has one server at a time, so the two servers alternate.

use crate::{
    amount,
    lives::CriLife,
    nri_plugin::Plugin,
    support::{failure::Outcome, stage::Stage, world::World},
    table::Table,
};

/// Runs the lives, alternating.
pub(crate) async fn measure(world: &World) -> Outcome {
    let mut off = Stage::cni(world, "nri_off").await?;
    off.bridge.stop().await?;
    let (mut on, socket) = Stage::with_plugins(world, "nri_on").await?;
    on.bridge.stop().await?;
    let mut table = Table::default();
    for turn in 0..amount("NRI_TURNS", 10) {
        off.bridge.spawn().await?;
        off.cri = off.bridge.cri().await?;
        // After each start of a server, the first life warms caches and connections. It is not counted.
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
    // No cost: less than the difference between two medians of the same measurement.
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
/// Lives between two starts.
const LIVES: u32 = 4;
