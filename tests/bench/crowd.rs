//! Measures how long the CRI's read calls take, and how much memory dockbridge needs, with many pods (`PODS`,
//! by default sixty) of two containers each.

use std::{fs, time::Instant};

use dockbridge::wire::cri;

use crate::{
    amount, daemons,
    lives::RAW,
    raw::RawEngine,
    support::{
        cri::Cri,
        failure::{Failure, Outcome},
        stage::Stage,
    },
    table::Table,
    wanted,
};

/// Starts the pods, measures the read calls, dockbridge's memory and the daemons' processor time, and removes the pods.
pub(crate) async fn measure(stage: &Stage, engine: &RawEngine, peer: Option<&Cri>) -> Outcome {
    let pods = amount("PODS", 60);
    let before = resident(stage)?;
    let begun = Instant::now();
    let crowd = fill(stage, &stage.cri, pods).await?;
    println!("{pods} pods × 2 up, one after the other, in {:.1} s", begun.elapsed().as_secs_f32());
    let theirs = match peer {
        Some(peer) => fill(stage, peer, pods).await?,
        None => Vec::new(),
    };
    let mut table = Table::default();
    for _ in 0..amount("READS", 200) {
        reads("dockbridge", &stage.cri, &mut table).await?;
        if let Some((sandbox, container)) = crowd.last() {
            raw_reads(engine, (sandbox, container), &mut table).await?;
        }
        if let Some(peer) = peer {
            reads("peer", peer, &mut table).await?;
        }
    }
    table.print("reads beside the crowd");
    table.wants("ListContainerStats", 10.0);
    table.wants("ContainerStatus", 0.3);
    println!("resident memory without pods: {before:.1} MB");
    wanted::at_most("resident memory, MB", resident(stage)?, 25.0);
    println!();
    daemons::measure(stage, peer).await?;
    let begun = Instant::now();
    disperse(&stage.cri, &crowd).await?;
    println!("all gone, one after the other, in {:.1} s\n", begun.elapsed().as_secs_f32());
    if let Some(peer) = peer {
        disperse(peer, &theirs).await?;
    }
    Ok(())
}

/// Starts the pods, and returns the id of each sandbox and the id of its last container.
async fn fill(stage: &Stage, cri: &Cri, pods: u32) -> Outcome<Vec<(String, String)>> {
    let mut crowd = Vec::new();
    for number in 0..pods {
        let pod = stage.recipes.pod(&format!("crowd{number}"));
        let sandbox = cri.run(&pod).await?;
        let mut last = String::new();
        for name in ["one", "two"] {
            last = cri.create(&sandbox, &stage.recipes.container(name, QUIET), &pod).await?;
            cri.start(&last).await?;
        }
        crowd.push((sandbox, last));
    }
    Ok(crowd)
}

async fn disperse(cri: &Cri, crowd: &[(String, String)]) -> Outcome {
    for (sandbox, _) in crowd {
        cri.stop(sandbox).await?;
        cri.remove(sandbox).await?;
    }
    Ok(())
}

async fn reads(who: &'static str, cri: &Cri, table: &mut Table) -> Outcome {
    let step = Instant::now();
    let sandboxes = cri.sandboxes().await?;
    table.since(who, "ListPodSandbox", step);
    let step = Instant::now();
    let containers = cri.containers().await?;
    table.since(who, "ListContainers", step);
    let sandbox = sandboxes.first().map(|item| item.id.clone()).unwrap_or_default();
    let container = containers.first().map(|item| item.id.clone()).unwrap_or_default();
    let step = Instant::now();
    cri.sandbox(&sandbox).await?;
    table.since(who, "PodSandboxStatus", step);
    let step = Instant::now();
    let image = cri.container(&container).await?.image.unwrap_or_default();
    table.since(who, "ContainerStatus", step);
    let step = Instant::now();
    cri.status(false).await?;
    table.since(who, "Status", step);
    let step = Instant::now();
    cri.version().await?;
    table.since(who, "Version", step);
    let step = Instant::now();
    cri.list_images().await?;
    table.since(who, "ListImages", step);
    let step = Instant::now();
    cri.image(&image.image).await?;
    table.since(who, "ImageStatus", step);
    statistics(who, cri, table).await?;
    filesystem(who, cri, table).await
}

/// Measures the calls for statistics and metrics. The calls about pods may fail: not every CRI server has them.
async fn statistics(who: &'static str, cri: &Cri, table: &mut Table) -> Outcome {
    let step = Instant::now();
    cri.all_stats(None).await?;
    table.since(who, "ListContainerStats", step);
    let step = Instant::now();
    if cri.all_pod_stats(None).await.is_ok() {
        table.since(who, "ListPodSandboxStats", step);
    }
    let step = Instant::now();
    if cri.pod_metrics().await.is_ok() {
        table.since(who, "ListPodSandboxMetrics", step);
    }
    Ok(())
}

async fn filesystem(who: &'static str, cri: &Cri, table: &mut Table) -> Outcome {
    let step = Instant::now();
    cri.images
        .clone()
        .image_fs_info(cri::ImageFsInfoRequest {})
        .await
        .map_err(|status| Failure(format!("ImageFsInfo: {}", status.message())))?;
    table.since(who, "ImageFsInfo", step);
    Ok(())
}

/// Measures the engine requests that a CRI server without its own copy of the state would send for most of
/// the read calls.
async fn raw_reads(engine: &RawEngine, ids: (&str, &str), table: &mut Table) -> Outcome {
    let questions = [
        ("ListPodSandbox", "/containers/json?all=1".to_owned()),
        ("ListContainers", "/containers/json?all=1".to_owned()),
        ("PodSandboxStatus", format!("/containers/{}/json", ids.0)),
        ("ContainerStatus", format!("/containers/{}/json", ids.1)),
        ("Status", "/info".to_owned()),
        ("Version", "/version".to_owned()),
        ("ListImages", "/images/json".to_owned()),
        ("ImageFsInfo", "/system/df".to_owned()),
    ];
    for (step, path) in questions {
        let begun = Instant::now();
        engine.get(&path).await?;
        table.since(RAW, step, begun);
    }
    Ok(())
}

/// The resident memory of dockbridge, in MB.
fn resident(stage: &Stage) -> Outcome<f64> {
    let pid = stage.bridge.pid().unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    let kilobytes: u32 =
        line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or_default();
    Ok(f64::from(kilobytes) * 1.024 / 1000.0)
}

/// A shell command that waits without using processor time, and ends at once on SIGTERM. A shell loop that
/// counts seconds would add its own processor time to the measurement.
const QUIET: &str = "trap 'exit 0' TERM; sleep 1000000 & wait $!";
