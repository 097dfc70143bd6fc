//! Samples the memory, descriptors, threads, inotify watches and tasks of dockbridge while pods are created and
//! removed.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::timeout,
};

use super::{curve::Curve, verdict::Slack};
use crate::support::{failure::Outcome, process::Process, stage::Stage};

/// Takes the samples. The sampler also writes each sample to a file, for runs that are stopped early.
#[derive(Debug)]
pub(crate) struct Sampler {
    process: Process,
    /// dockbridge's admin socket, from which the number of tasks is read.
    window: PathBuf,
    begun: Instant,
    taken: Vec<(f64, [Option<f64>; MEASURES.len()])>,
    file: File,
}

/// The measured values, and how much the median of each may grow.
const MEASURES: [(&str, Slack); 5] = [
    ("resident memory, MB", Slack { amount: 1.0, share: 0.02 }),
    ("descriptors", Slack { amount: 4.0, share: 0.02 }),
    ("threads", Slack { amount: 3.0, share: 0.0 }),
    ("inotify watches", Slack { amount: 2.0, share: 0.02 }),
    ("tasks", Slack { amount: 4.0, share: 0.02 }),
];

impl Sampler {
    /// Creates a sampler that writes the samples of the stage's dockbridge to `file`.
    pub(crate) fn new(stage: &Stage, file: &Path) -> Outcome<Self> {
        let mut file = File::create(file)?;
        let names = MEASURES.map(|(name, _)| name).join("\t");
        writeln!(file, "seconds\t{names}")?;
        Ok(Self {
            process: Process(stage.bridge.pid().unwrap_or_default()),
            window: stage.folders.run.join("admin.sock"),
            begun: Instant::now(),
            taken: Vec::new(),
            file,
        })
    }

    /// Takes a sample.
    pub(crate) async fn look(&mut self) -> Outcome {
        let process = self.process;
        let count = |count: usize| u32::try_from(count).ok().map(f64::from);
        let values = [
            u32::try_from(process.resident()?).ok().map(|kib| f64::from(kib) * 1.024 / 1000.0),
            count(process.descriptors()?),
            u32::try_from(process.threads()?).ok().map(f64::from),
            count(process.watches()?),
            tasks(&self.window).await,
        ];
        let at = self.begun.elapsed().as_secs_f64();
        let texts = values.map(|value| value.map_or("-".to_owned(), |value| format!("{value:.2}")));
        writeln!(self.file, "{at:.1}\t{}", texts.join("\t"))?;
        self.taken.push((at, values));
        Ok(())
    }

    /// The last sample as text.
    pub(crate) fn last(&self) -> String {
        let values = self.taken.last().map_or([None; MEASURES.len()], |(_, values)| *values);
        let said = MEASURES.iter().zip(values);
        let said = said.filter_map(|((name, _), value)| Some(format!("{name} {:.1}", value?)));
        said.collect::<Vec<_>>().join(", ")
    }

    /// The names of the values that could not be measured in any sample.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        let never = |place: &usize| self.taken.iter().all(|(_, values)| values[*place].is_none());
        (0..MEASURES.len()).filter(never).map(|place| MEASURES[place].0).collect()
    }

    /// A curve for each value that could be measured in at least one sample.
    pub(crate) fn curves(&self) -> Vec<Curve> {
        let places = MEASURES.iter().enumerate();
        let curves = places.map(|(place, &(name, slack))| {
            let samples = self.taken.iter().filter_map(|(at, values)| Some((*at, values[place]?)));
            Curve::new(name, samples.collect(), slack)
        });
        curves.filter(|curve| !curve.samples.is_empty()).collect()
    }
}

/// The number of tasks in dockbridge's metrics, or `None` if the metrics lack it or cannot be read.
async fn tasks(window: &Path) -> Option<f64> {
    let answer = timeout(Duration::from_secs(5), metrics(window)).await.ok()?.ok()?;
    answer.lines().find_map(|line| line.strip_prefix("dockbridge_async_tasks "))?.parse().ok()
}

async fn metrics(window: &Path) -> Outcome<String> {
    let mut stream = UnixStream::connect(window).await?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: dockbridge\r\nConnection: close\r\n\r\n")
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
