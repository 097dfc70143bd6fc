//! Measures the processor time of dockbridge and the engine's daemons while a simulated kubelet polls dockbridge,
//! and without polling.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use tokio::{net::UnixStream, time::sleep};

use crate::{
    amount,
    kubelet::Kubelet,
    support::{
        cri::Cri,
        failure::{Failure, Outcome},
        stage::Stage,
    },
    wanted,
};

/// Measures for a minute each (or `POLLING` seconds) while the pods run: with a frozen dockbridge, without polling,
/// with polling, and with polling for metrics as well. If there is a peer (another CRI endpoint), it has the same
/// number of pods, and is measured for the same time, while a simulated kubelet polls it and dockbridge is frozen.
pub(crate) async fn measure(stage: &Stage, peer: Option<&Cri>) -> Outcome {
    let length = Duration::from_secs(amount("POLLING", 60));
    let watch = Watch::of(stage).await?;
    print!("{:<30}", "CPU seconds a minute");
    watch.names.iter().for_each(|name| print!("{name:>12}"));
    println!("{:>12}{SHIMS:>12}", "sum");
    stage.bridge.freeze()?;
    let engine_alone = watch.over("the engine without a bridge", length).await;
    stage.bridge.thaw()?;
    engine_alone?;
    watch.over("nobody asks", length).await?;
    let kubelet = Kubelet::of(&stage.cri);
    let sum = watch.over("a kubelet asks dockbridge", length).await?;
    kubelet.is_content()?;
    drop(kubelet);
    let kubelet = Kubelet::of(&stage.cri).with_features();
    watch.over("and for metrics, too", length).await?;
    kubelet.is_content()?;
    drop(kubelet);
    if let Some(peer) = peer {
        let kubelet = Kubelet::of(peer);
        stage.bridge.freeze()?;
        let outcome = watch.over("a kubelet asks the peer", length).await;
        stage.bridge.thaw()?;
        outcome?;
        kubelet.is_content()?;
    }
    wanted::at_most("the daemons' CPU s a minute", sum, 0.3);
    println!();
    Ok(())
}

/// Measures the processor time of the daemons.
#[derive(Debug)]
pub(crate) struct Watch {
    names: Vec<&'static str>,
    known: BTreeMap<u32, &'static str>,
}

impl Watch {
    /// Watches dockbridge, the engine's daemons, and the peer if there is one.
    pub(crate) async fn of(stage: &Stage) -> Outcome<Self> {
        let mut known = BTreeMap::new();
        known.extend(stage.bridge.pid().map(|pid| (pid, "dockbridge")));
        let mut names = vec!["dockbridge", "dockerd", "containerd"];
        if let Some(path) =
            std::env::var("PEER").ok().as_deref().and_then(|peer| peer.strip_prefix("unix://"))
        {
            let pid = UnixStream::connect(path).await?.peer_cred()?.pid();
            known.extend(pid.and_then(|pid| Some((u32::try_from(pid).ok()?, PEER))));
            names.insert(1, PEER);
        }
        Ok(Self { names, known })
    }

    /// Prints the processor time of each daemon per minute, and returns the total of the daemons that serve
    /// dockbridge's pods.
    async fn over(&self, title: &str, length: Duration) -> Outcome<f64> {
        // This pause gives earlier work time to end.
        sleep(Duration::from_secs(3)).await;
        let (before, begun) = (self.used()?, Instant::now());
        sleep(length).await;
        let (after, took) = (self.used()?, begun.elapsed());
        print!("{title:<30}");
        let used = |name: &str| {
            let of = |used: &BTreeMap<&str, f64>| used.get(name).copied().unwrap_or_default();
            (of(&after) - of(&before)) * 60.0 / took.as_secs_f64()
        };
        let mut sum = 0.0;
        for name in &self.names {
            print!("{:>12.2}", used(name));
            sum += if *name == PEER { 0.0 } else { used(name) };
        }
        println!("{sum:>12.2}{:>12.2}", used(SHIMS));
        Ok(sum)
    }

    /// The processor seconds so far of each daemon and its reaped child processes, of all shims, and of the machine.
    pub(crate) fn used(&self) -> Outcome<BTreeMap<&'static str, f64>> {
        let mut used = BTreeMap::from([(MACHINE, machine()?)]);
        for entry in fs::read_dir("/proc")?.flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            // A process that has ended since the directory was read is skipped.
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            let (owner, seconds) = self.attribute(pid, &stat)?;
            if let Some(owner) = owner {
                *used.entry(owner).or_default() += seconds;
            }
        }
        Ok(used)
    }

    fn attribute(&self, pid: u32, stat: &str) -> Outcome<(Option<&'static str>, f64)> {
        let (head, tail) = stat.rsplit_once(") ").ok_or_else(|| Failure(stat.to_owned()))?;
        let command = head.split_once('(').map_or("", |(_, command)| command);
        let owner = self.known.get(&pid).copied().or(match command {
            "dockerd" => Some("dockerd"),
            "containerd" => Some("containerd"),
            shim if shim.starts_with("containerd-shim") => Some(SHIMS),
            _ => None,
        });
        // The four fields are the user and system time of the process and of its reaped children.
        let ticks = tail.split(' ').skip(11).take(4).map(str::parse::<u32>);
        let ticks = ticks.sum::<Result<u32, _>>()?;
        Ok((owner, f64::from(ticks) / TICKS))
    }
}

/// The processor seconds of the machine so far: user, nice and system time of all processors.
fn machine() -> Outcome<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let ticks = stat.split_whitespace().skip(1).take(3).map(str::parse::<u32>);
    Ok(f64::from(ticks.sum::<Result<u32, _>>()?) / TICKS)
}

/// The name for the processor time of all processes, also of processes that belong to no daemon.
const MACHINE: &str = "machine";
/// The name for the other CRI endpoint's process, if `PEER` is set.
const PEER: &str = "peer";
/// The name for all of containerd's shims together. Shims are not daemons, so the sum excludes them.
const SHIMS: &str = "shims";
/// The kernel reports processor time in hundredths of a second.
const TICKS: f64 = 100.0;
