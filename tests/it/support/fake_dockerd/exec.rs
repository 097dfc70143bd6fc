//! The exec and attach calls of the fake dockerd, with scripts of what the processes do.

use std::{io, sync::Mutex, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use super::{
    routes::{Answer, lock, ok, refuse},
    wire::Recorded,
    world::World,
};

/// A step of a fake process.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Writes to standard output. Without a terminal, the bytes are in a frame.
    Out(Vec<u8>),
    /// Writes to standard error.
    Err(Vec<u8>),
    /// Sends these bytes on the connection unchanged, without a frame.
    Raw(Vec<u8>),
    /// The process waits for this time.
    Pause(Duration),
    /// Writes the process's input to its output until the input ends.
    Echo,
    /// The process ends with this code. The steps after this one are those of the process's children.
    End(i64),
}

/// A fake process: its steps, and how the engine reports the process.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Step>,
    /// The exit code after the last step, if no step is [`Step::End`]; `None` if the exec has no exit code.
    pub(crate) exit_code: Option<i64>,
    /// How long after the last step an inspect shows `exit_code`, if no step is [`Step::End`].
    pub(crate) lag: Duration,
    /// The process's pid in an inspect. dockbridge finds no process if the pid does not exist.
    pub(crate) pid: i64,
}

impl Script {
    /// A process that does these steps, and exits with 0 if no step is [`Step::End`].
    pub(crate) fn of(steps: impl Into<Vec<Step>>) -> Self {
        let (steps, lag) = (steps.into(), Duration::ZERO);
        Self { steps, exit_code: Some(0), lag, pid: i64::from(i32::MAX) }
    }

    /// A process that does these steps, then waits for an hour, and has no exit code.
    pub(crate) fn endless(steps: impl Into<Vec<Step>>) -> Self {
        let mut script = Self::of(steps);
        script.steps.push(Step::Pause(Duration::from_secs(3600)));
        Self { exit_code: None, ..script }
    }
}

/// An exec that was created in a container.
#[derive(Clone, Debug)]
pub(crate) struct Exec {
    pub(crate) id: String,
    pub(crate) container: String,
    /// The body of the exec's create request.
    pub(crate) body: Value,
    pub(crate) script: Script,
    pub(crate) begun: bool,
    pub(crate) running: bool,
    pub(crate) exit_code: Option<i64>,
    /// The columns and lines of the terminal's last resize.
    pub(crate) size: Option<(String, String)>,
}

/// A process whose streams use a hijacked connection.
pub(super) struct Takeover {
    /// The id of the process's exec, or `None` for a container's main process.
    exec: Option<String>,
    script: Script,
    tty: bool,
}

pub(super) fn create(world: &mut World, container: &str, request: &Recorded) -> Answer {
    let Some(found) = world.container(container) else {
        return refuse(404, &format!("No such container: {container}"));
    };
    let container = found.id.clone();
    match found.status.as_str() {
        "running" => {}
        "paused" => {
            let text =
                format!("Container {container} is paused, unpause the container before exec");
            return refuse(409, &text);
        }
        _ => return refuse(409, &format!("Container {container} is not running")),
    }
    let (body, id) = (request.json(), world.fresh_id());
    let program = body["Cmd"][0].as_str().unwrap_or_default();
    let script = world.scripts.get(program).cloned().unwrap_or_else(|| Script::of([]));
    let exec = Exec {
        id: id.clone(),
        container,
        body,
        script,
        begun: false,
        running: false,
        exit_code: None,
        size: None,
    };
    world.execs.push(exec);
    Answer::Json(201, json!({ "Id": id }))
}

pub(super) fn start(world: &mut World, id: &str) -> Answer {
    let Some(exec) = world.exec_mut(id) else { return missing(id) };
    if exec.begun {
        return refuse(409, &format!("Error: Exec command {id} has already run"));
    }
    (exec.begun, exec.running) = (true, true);
    let tty = exec.body["Tty"].as_bool().unwrap_or_default();
    Answer::Hijack(Takeover { exec: Some(id.to_owned()), script: exec.script.clone(), tty })
}

pub(super) fn inspect(world: &mut World, id: &str) -> Answer {
    let Some(exec) = world.exec_mut(id) else { return missing(id) };
    ok(json!({
        "ID": exec.id, "ContainerID": exec.container, "Running": exec.running,
        "ExitCode": exec.exit_code, "Pid": if exec.begun { exec.script.pid } else { 0 },
    }))
}

pub(super) fn resize(world: &mut World, id: &str, request: &Recorded) -> Answer {
    let size = (request.parameter("w").to_owned(), request.parameter("h").to_owned());
    let Some(exec) = world.exec_mut(id) else { return missing(id) };
    exec.size = Some(size);
    Answer::Json(200, Value::Null)
}

pub(super) fn attach(world: &mut World, container: &str) -> Answer {
    let Some(found) = world.container(container) else {
        return refuse(404, &format!("No such container: {container}"));
    };
    if found.status != "running" {
        return refuse(409, &format!("Container {} is not running", found.id));
    }
    let tty = found.body["Tty"].as_bool().unwrap_or_default();
    Answer::Hijack(Takeover { exec: None, script: world.attached.clone(), tty })
}

/// Runs the script of a process on a connection. The process continues after the client has disconnected,
/// unless an echo fails.
pub(super) async fn play(
    world: &Mutex<World>,
    stream: &mut UnixStream,
    takeover: Takeover,
) -> io::Result<()> {
    let Takeover { exec, script, tty } = takeover;
    let media = if tty { "raw-stream" } else { "multiplexed-stream" };
    let head = format!(
        "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\
         Content-Type: application/vnd.docker.{media}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut code = script.exit_code;
    for step in script.steps {
        match step {
            Step::Out(bytes) => drop(stream.write_all(&framed(tty, 1, &bytes)).await),
            Step::Err(bytes) => drop(stream.write_all(&framed(tty, 2, &bytes)).await),
            Step::Raw(bytes) => drop(stream.write_all(&bytes).await),
            Step::Pause(time) => tokio::time::sleep(time).await,
            Step::Echo => echo(stream, tty).await?,
            Step::End(stated) => end(world, exec.as_deref(), *code.insert(stated)),
        }
    }
    let _ = stream.shutdown().await;
    if let Some(code) = code {
        tokio::time::sleep(script.lag).await;
        end(world, exec.as_deref(), code);
    } else if let Some(exec) = lock(world).exec_mut(exec.as_deref().unwrap_or_default()) {
        exec.running = false;
    }
    Ok(())
}

/// One frame of output without a terminal, or only the bytes with a terminal.
pub(crate) fn framed(tty: bool, stream: u8, bytes: &[u8]) -> Vec<u8> {
    if tty {
        return bytes.to_vec();
    }
    let mut frame = vec![stream, 0, 0, 0];
    frame.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(bytes);
    frame
}

async fn echo(stream: &mut UnixStream, tty: bool) -> io::Result<()> {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let count = stream.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&framed(tty, 1, &bytes[..count])).await?;
    }
}

fn end(world: &Mutex<World>, exec: Option<&str>, code: i64) {
    let mut world = lock(world);
    if let Some(exec) = exec.and_then(|id| world.exec_mut(id)) {
        (exec.running, exec.exit_code) = (false, Some(code));
    }
}

fn missing(id: &str) -> Answer {
    refuse(404, &format!("No such exec instance: {id}"))
}
