//! Restores a program that starts slowly, with much memory, many threads, timers and an event loop, and prints
//! how soon it answers after an ordinary start and after a restore.

use std::{
    fs,
    time::{Duration, Instant},
};

use dockbridge::wire::cri;
use tokio::{io::AsyncReadExt, net::TcpStream, process::Command};

use crate::{
    restores,
    skips::{Lack, skip},
    support::{
        failure::{Outcome, ensure, ensure_eq, fail},
        patience::Looks,
        stage::Stage,
        stated::is_full_size,
        world::World,
    },
};

/// The restored program has the memory that the container checkpoint saved, and its threads, timers and sources of
/// events continue. For each amount of work at the start, prints a row like those of the table in
/// `docs/guides/checkpoints.md`.
pub(crate) async fn continue_after_it(world: World) -> Outcome {
    let Some((stage, archive)) = restores::stage(&world, "slow_starts").await? else {
        return Ok(());
    };
    if !is_built(&stage).await? {
        skip(Lack::Program("cc"));
        return Ok(());
    }
    let amounts: &[u32] = if is_full_size() { &[1, 50, 500] } else { &[1] };
    for steps in amounts {
        let program = Program::of_size(*steps);
        let (cold, before) = first_answer(&stage, "cold", &program.started(&stage)).await?;
        let (sandbox, id) = (before.sandbox, before.container);
        stage.cri.checkpoint(&id, &archive, 0).await?;
        stage.cri.end(&sandbox).await?;
        let bytes = fs::metadata(&archive)?.len();

        let mut restored = program.started(&stage);
        restored.command.clear();
        restored.image =
            Some(cri::ImageSpec { image: archive.display().to_string(), ..Default::default() });
        let (warm, after) = first_answer(&stage, "restored", &restored).await?;
        println!("  | {program:?} | {cold:.1?} | {warm:.1?} | archive of {} MiB", bytes >> 20);
        ensure_eq!(after.answer.start, before.answer.start, "it was started again");
        ensure_eq!(after.answer.sum, before.answer.sum, "its memory is another");
        let mut looks = Looks::every(Duration::from_millis(100));
        let continues = |answer: &Answer| {
            answer.counts.iter().zip(after.answer.counts).all(|(now, then)| *now > then)
        };
        while !continues(&Answer::of(&after.address).await?) {
            ensure!(looks.again().await, "something has stopped since {:?}", after.answer);
        }
        ensure!(
            after.answer.counts.iter().zip(before.answer.counts).all(|(now, then)| *now >= then),
            "a count began again: {:?} after {:?}",
            after.answer,
            before.answer
        );
        stage.cri.stop_container(&after.container, 10).await?;
        let status = stage.cri.container(&after.container).await?;
        ensure_eq!(status.exit_code, 0, "it did not see the request to end");
        stage.cri.end(&after.sandbox).await?;
        fs::remove_file(&archive)?;
    }
    stage.leaves_nothing().await
}

/// Compiles the program into a directory that the containers mount. Returns false if there is no compiler.
async fn is_built(stage: &Stage) -> Outcome<bool> {
    let source = stage.folders.shared.join("slow_starts.c");
    let directory = stage.folders.shared.join("program");
    fs::create_dir_all(&directory)?;
    fs::write(&source, include_str!("slow_starts.c"))?;
    let mut compiler = Command::new("cc");
    // The test image has no libraries.
    compiler.args(["-O2", "-static", "-pthread", "-o"]).arg(directory.join("slow")).arg(&source);
    match compiler.output().await {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        output => {
            let output = output?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Ok(true)
        }
    }
}

/// How much memory and how many threads the program has, and how much it computes at its start.
#[derive(Clone, Copy, Debug)]
struct Program {
    mebibytes: u32,
    threads: u32,
    /// Steps of computation for each 8 bytes of memory.
    steps: u32,
}

impl Program {
    fn of_size(steps: u32) -> Self {
        match is_full_size() {
            true => Self { mebibytes: 200, threads: 20, steps },
            false => Self { mebibytes: 32, threads: 4, steps },
        }
    }

    fn started(self, stage: &Stage) -> cri::ContainerConfig {
        let Self { mebibytes, threads, steps } = self;
        let line = format!("exec /program/slow {mebibytes} {threads} {steps} {PORT}");
        let mut container = stage.recipes.container("slow", &line);
        container.mounts.push(cri::Mount {
            container_path: "/program".to_owned(),
            host_path: stage.folders.shared.join("program").display().to_string(),
            readonly: true,
            ..cri::Mount::default()
        });
        let resources = container.linux.get_or_insert_default().resources.get_or_insert_default();
        resources.memory_limit_in_bytes = i64::from(mebibytes + 64) << 20;
        container
    }
}

/// A running container whose program has answered a request.
struct Running {
    sandbox: String,
    container: String,
    address: String,
    answer: Answer,
}

/// Starts the container in a new pod. Returns the time from CreateContainer to the first answer.
async fn first_answer(
    stage: &Stage,
    pod: &str,
    config: &cri::ContainerConfig,
) -> Outcome<(Duration, Running)> {
    let pod = stage.recipes.pod(pod);
    let sandbox = stage.cri.run(&pod).await?;
    let address =
        format!("{}:{PORT}", stage.cri.sandbox(&sandbox).await?.network.unwrap_or_default().ip);
    let begun = Instant::now();
    let container = stage.up(&sandbox, &pod, std::slice::from_ref(config)).await?.remove(0);
    let mut looks = Looks::every(Duration::from_millis(5));
    while looks.again().await {
        if let Ok(answer) = Answer::of(&address).await {
            return Ok((begun.elapsed(), Running { sandbox, container, address, answer }));
        }
    }
    fail!("{address} does not answer")
}

/// The line that the program sends to each client before it closes the connection.
#[derive(Debug)]
struct Answer {
    /// A random number that the program chose at its start.
    start: u64,
    /// Checksum of the program's memory: the sum of its 64-bit words.
    sum: u64,
    /// How often the slowest thread, the `timerfd`, the `eventfd` and the timer with a signal have counted.
    counts: [u64; 4],
}

impl Answer {
    async fn of(address: &str) -> Outcome<Self> {
        let mut text = String::new();
        TcpStream::connect(address).await?.read_to_string(&mut text).await?;
        let numbers: Vec<u64> =
            text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [start, sum, slowest, ticks, wakes, alarms] = numbers[..] else {
            fail!("{address} answers {text:?}")
        };
        Ok(Self { start, sum, counts: [slowest, ticks, wakes, alarms] })
    }
}

const PORT: u16 = 8080;
