//! Logs as kubelet sees them: in CRI format, complete when dockbridge shows the container's exit, and rotated
//! without lost, repeated or incomplete lines.

pub(crate) mod forms;
pub(crate) mod rotation;

use std::time::Duration;

use dockbridge::wire::cri;

use crate::support::{
    cri::Cri,
    cri_log::CriLog,
    failure::{Outcome, fail},
    patience::Looks,
    stage::Stage,
};

/// A pod for containers that write logs.
struct Scene {
    stage: Stage,
    sandbox: String,
    pod: cri::PodSandboxConfig,
}

impl Scene {
    async fn on(stage: Stage) -> Outcome<Self> {
        let pod = stage.recipes.pod("pod");
        let sandbox = stage.cri.run(&pod).await?;
        Ok(Self { stage, sandbox, pod })
    }

    /// Starts a container that runs a shell line, and returns its id and its log.
    async fn add(&self, name: &str, line: &str, tty: bool) -> Outcome<(String, CriLog)> {
        let mut container = self.stage.recipes.container(name, line);
        container.tty = tty;
        let id = self.stage.cri.create(&self.sandbox, &container, &self.pod).await?;
        self.stage.cri.start(&id).await?;
        Ok((id, CriLog::of(&self.pod, &container)))
    }

    /// Sends SIGTERM to the container's process, without dockbridge.
    async fn tell_to_end(&self, id: &str) -> Outcome {
        self.stage.engine.docker(&["kill", "-s", "TERM", id]).await.map(drop)
    }

    async fn clear(self) -> Outcome {
        self.stage.cri.clear().await?;
        self.stage.leaves_nothing().await
    }
}

/// Waits until dockbridge shows the container's exit.
async fn until_exited(cri: &Cri, id: &str) -> Outcome {
    let mut looks = Looks::every(Duration::from_millis(2));
    while looks.again().await {
        if cri.container(id).await?.state() == cri::ContainerState::ContainerExited {
            return Ok(());
        }
    }
    fail!("{id} is never shown as ended");
}

/// A shell program that writes numbers from 0 on to both streams until SIGTERM. Each stream gets `lines` lines at once,
/// at intervals of `every` microseconds or more. The last line of each stream contains the number of lines before it.
/// The program pauses while the file `/hold` exists.
fn counting(lines: u32, every: u32) -> String {
    format!(
        "count() {{ i=0; while [ ! -e /enough ]; do usleep {every} & seq $i $((i+{lines}-1)); \
         i=$((i+{lines})); wait $!; while [ -e /hold ]; do usleep 10000; done; done; \
         echo total $i; }}; trap 'touch /enough' TERM; count & count >&2 & wait; wait; wait"
    )
}

/// Checks the lines of one stream, which must be the numbers from 0 on and, at the end, their count.
#[derive(Debug, Default)]
struct Count {
    next: u64,
    total: Option<u64>,
}

impl Count {
    fn take(&mut self, text: &[u8]) -> Outcome {
        let text = std::str::from_utf8(text)?;
        match (text.strip_prefix("total "), self.total) {
            (Some(total), None) => self.total = Some(total.parse()?),
            (None, None) if text.parse() == Ok(self.next) => self.next += 1,
            (_, total) => fail!("{text:?} after {} lines, the end is {total:?}", self.next),
        }
        Ok(())
    }
}

/// Checks that both streams in the log have every line once, in order and complete, up to the last line, and
/// returns the number of lines.
fn count(log: &CriLog) -> Outcome<u64> {
    let [mut stdout, mut stderr] = [Count::default(), Count::default()];
    log.each(|line| {
        if !line.full {
            fail!("a short line in parts");
        }
        match line.stream {
            "stdout" => stdout.take(line.text),
            "stderr" => stderr.take(line.text),
            other => fail!("stream {other}"),
        }
    })?;
    for (name, count) in [("stdout", &stdout), ("stderr", &stderr)] {
        if count.total != Some(count.next) {
            fail!("{name}: {} lines, and the last one said {:?}", count.next, count.total);
        }
    }
    Ok(stdout.next + stderr.next + 2)
}
