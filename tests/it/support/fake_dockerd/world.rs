//! The containers and images of the fake dockerd, and the events that their changes cause.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::exec::{Exec, Script};

/// The state of the fake dockerd.
pub(crate) struct World {
    pub(crate) containers: Vec<Container>,
    pub(crate) images: Vec<Image>,
    /// Images that clients can pull.
    pub(crate) registry: Vec<Image>,
    /// The execs that were created in containers.
    pub(crate) execs: Vec<Exec>,
    /// The scripts of exec processes, by program. Without a script, a program ends at once with success.
    pub(crate) scripts: BTreeMap<String, Script>,
    /// What an attached client sees of any container's main process.
    pub(crate) attached: Script,
    /// The answer to `/info`, which tests may change.
    pub(crate) info: Value,
    /// Whether the daemon has the default log option `max-buffer-size`.
    pub(crate) buffers_logs: bool,
    /// The engine's version in the answer to `/version`.
    pub(crate) release: String,
    /// The pid of containers that are started from now on. By default, the test's own pid, so that the process exists.
    pub(crate) pid: u32,
    /// The engine's data root, which has the logs `containers/<id>/<id>-json.log`.
    pub(crate) root: PathBuf,
    /// If set, each event is sent immediately, once with each of these timestamps (Unix nanoseconds). If the list is
    /// empty, no event is sent.
    pub(crate) event_times: Option<Vec<i64>>,
    serial: u64,
    feed: broadcast::Sender<(Value, Vec<u8>)>,
}

/// A container of the fake dockerd.
#[derive(Clone, Debug)]
pub(crate) struct Container {
    pub(crate) id: String,
    /// The container's name without the leading slash.
    pub(crate) name: String,
    /// The body of the container's create request, with the limits of later updates.
    pub(crate) body: Value,
    /// The id of the container's image.
    pub(crate) image: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) created: String,
    /// The container's state: `created`, `running`, `exited`, `removing`, …
    pub(crate) status: String,
    pub(crate) pid: u32,
    pub(crate) exit_code: i64,
    pub(crate) oom_killed: bool,
    pub(crate) error: String,
    pub(crate) started: String,
    pub(crate) finished: String,
    /// How long the container's process takes to end when a client stops the container. The process is killed if
    /// the grace period is shorter.
    pub(crate) takes_to_stop: Duration,
    /// How long the removal of the container takes.
    pub(crate) takes_to_remove: Duration,
    /// The log path in the container's inspect, or `None` for the real path.
    pub(crate) stated_log: Option<String>,
}

/// An image of the fake dockerd.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    pub(crate) id: String,
    pub(crate) tags: Vec<String>,
    pub(crate) digests: Vec<String>,
    pub(crate) size: u64,
    /// The id of the image on which this one is based, or empty.
    pub(crate) parent: String,
    /// The field `Config` in the image's inspect.
    pub(crate) config: Value,
    /// The texts of the image's files, by path. The text `-> /target` stands for a symbolic link to `/target`, and the
    /// text `a pipe` for a named pipe.
    pub(crate) files: BTreeMap<String, String>,
}

impl World {
    pub(super) fn new(root: PathBuf) -> Self {
        // Each fake dockerd has its own engine id.
        let id = format!("FAKE:{:016X}", rand::random::<u64>());
        let info = json!({
            "ID": id, "ServerVersion": "26.1.5", "CgroupDriver": "cgroupfs",
            "CgroupVersion": "2", "DockerRootDir": root, "Driver": "overlay2",
            "DriverStatus": [["Backing Filesystem", "extfs"]],
            "Runtimes": {"runc": {"path": "runc"}, "io.containerd.runc.v2": {"path": "runc"}},
            "DefaultRuntime": "runc", "SecurityOptions": ["name=seccomp,profile=builtin"],
            "LoggingDriver": "json-file", "LiveRestoreEnabled": false,
            "KernelVersion": "6.1.0", "Warnings": null,
        });
        Self {
            containers: Vec::new(),
            images: Vec::new(),
            registry: Vec::new(),
            execs: Vec::new(),
            scripts: BTreeMap::new(),
            attached: Script::of([]),
            info,
            buffers_logs: false,
            release: "26.1.5".to_owned(),
            pid: std::process::id(),
            root,
            event_times: None,
            serial: 0,
            feed: broadcast::channel(4096).0,
        }
    }

    /// Adds an image to the engine's store, and returns its id.
    pub(crate) fn add_image(&mut self, reference: &str) -> String {
        self.add_image_of(reference, None)
    }

    /// Adds an image with this id, or with a new id.
    pub(crate) fn add_image_of(&mut self, reference: &str, id: Option<String>) -> String {
        let mut image = self.make_image(reference);
        image.id = id.unwrap_or(image.id);
        let id = image.id.clone();
        self.images.push(image);
        self.image_event("load", &id);
        id
    }

    /// Adds an image to the registry, so that a pull of this reference succeeds, and returns its id.
    pub(crate) fn offer_image(&mut self, reference: &str) -> String {
        let image = self.make_image(reference);
        let id = image.id.clone();
        self.registry.push(image);
        id
    }

    /// Adds a container that is created from this request body, and returns its id.
    pub(crate) fn add_container(&mut self, name: &str, body: Value) -> String {
        let id = self.fresh_id();
        let asked = body["Image"].as_str().unwrap_or_default();
        let image = self.image(asked).cloned().unwrap_or_default();
        let mut labels = strings(&image.config["Labels"]);
        labels.extend(strings(&body["Labels"]));
        let zero = "0001-01-01T00:00:00Z".to_owned();
        self.containers.push(Container {
            id: id.clone(),
            name: name.to_owned(),
            body,
            image: image.id,
            labels,
            created: now(),
            status: "created".to_owned(),
            pid: 0,
            exit_code: 0,
            oom_killed: false,
            error: String::new(),
            started: zero.clone(),
            finished: zero,
            takes_to_stop: Duration::ZERO,
            takes_to_remove: Duration::ZERO,
            stated_log: None,
        });
        let log = self.log_path(&id);
        fs::create_dir_all(log.parent().unwrap()).unwrap();
        fs::write(log, "").unwrap();
        self.container_event("create", &id);
        id
    }

    /// Starts the container's main process.
    pub(crate) fn start(&mut self, id: &str) {
        let pid = self.pid;
        let container = self.container_mut(id).unwrap();
        let (status, started) = ("running".to_owned(), now());
        (container.status, container.started, container.pid) = (status, started, pid);
        container.exit_code = 0;
        self.container_event("start", id);
    }

    /// Ends the container's main process with this code, as if the process had exited or been killed.
    pub(crate) fn exit(&mut self, id: &str, code: i64) {
        let container = self.container_mut(id).unwrap();
        let (status, finished) = ("exited".to_owned(), now());
        (container.status, container.finished, container.pid) = (status, finished, 0);
        container.exit_code = code;
        self.container_event("die", id);
    }

    /// Ends the container's main process, and leaves the container in the state `restarting`.
    pub(crate) fn restart(&mut self, id: &str) {
        self.exit(id, 137);
        self.container_mut(id).unwrap().status = "restarting".to_owned();
    }

    /// Ends the container's main process by an OOM kill.
    pub(crate) fn oom(&mut self, id: &str) {
        self.learns_of_oom(id);
        self.exit(id, 137);
    }

    /// Makes the engine notice an OOM kill: the engine sends the event `oom`, and inspects show the kill.
    pub(crate) fn learns_of_oom(&mut self, id: &str) {
        self.container_mut(id).unwrap().oom_killed = true;
        self.container_event("oom", id);
    }

    /// Makes the engine notice an OOM kill too late: the engine sends the event `oom`, but no inspect shows the kill.
    pub(crate) fn learns_of_oom_too_late(&self, id: &str) {
        self.container_event("oom", id);
    }

    /// Sends the event `kill`, which says that a container got a signal.
    pub(super) fn signal(&self, id: &str, number: &str) {
        self.event_with("kill", id, |attributes| attributes["signal"] = json!(number));
    }

    /// Removes the container in any state. Sends only the event `destroy`.
    pub(crate) fn remove(&mut self, id: &str) {
        self.containers.retain(|container| container.id != id);
        self.container_event("destroy", id);
    }

    /// Writes a line of the container's standard output to its json-file log.
    pub(crate) fn log(&self, id: &str, text: &str) {
        self.log_entry(id, "stdout", &format!("{text}\n"));
    }

    /// Writes the entry that json-file stores for one read of the container's output.
    pub(crate) fn log_entry(&self, id: &str, stream: &str, text: &str) {
        let line = json!({ "log": text, "stream": stream, "time": now() });
        let mut file = fs::OpenOptions::new().append(true).open(self.log_path(id)).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Rotates the log as json-file does when a file is full, and keeps one old file.
    pub(crate) fn rotate_log(&self, id: &str) {
        let path = self.log_path(id);
        fs::rename(&path, path.with_extension("log.1")).unwrap();
        fs::write(path, "").unwrap();
    }

    pub(crate) fn log_path(&self, id: &str) -> PathBuf {
        self.root.join(format!("containers/{id}/{id}-json.log"))
    }

    /// Finds a container by id, unique prefix of the id, or name.
    pub(crate) fn container(&self, name: &str) -> Option<&Container> {
        let id = self.id_of(name)?;
        self.containers.iter().find(|container| container.id == id)
    }

    /// Finds a container by id, unique prefix of the id, or name.
    pub(crate) fn container_mut(&mut self, name: &str) -> Option<&mut Container> {
        let id = self.id_of(name)?;
        self.containers.iter_mut().find(|container| container.id == id)
    }

    /// Finds an image by id, by a prefix of the id (`sha256:` and at least four digits), or by tag or digest in short
    /// or full spelling.
    pub(crate) fn image(&self, name: &str) -> Option<&Image> {
        let name = familiar(name);
        let hex = name.strip_prefix("sha256:").unwrap_or(&name).to_owned();
        let named = |image: &&Image| {
            image.tags.contains(&name)
                || image.digests.contains(&name)
                || (hex.len() >= 4 && image.id["sha256:".len()..].starts_with(&hex))
        };
        self.images.iter().find(named)
    }

    pub(super) fn exec_mut(&mut self, id: &str) -> Option<&mut Exec> {
        self.execs.iter_mut().find(|exec| exec.id == id)
    }

    /// Sends an event on every event stream whose filters accept it.
    pub(crate) fn emit(&self, kind: &str, action: &str, id: &str, attributes: &Value) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let now = vec![i64::try_from(since.as_nanos()).unwrap()];
        for at in self.event_times.as_ref().unwrap_or(&now) {
            let event = json!({
                "status": action, "id": id, "Type": kind, "Action": action,
                "Actor": {"ID": id, "Attributes": attributes}, "scope": "local",
                "time": at / 1_000_000_000, "timeNano": at,
            });
            let bytes = format!("{event}\n").into_bytes();
            let _ = self.feed.send((event, bytes));
        }
    }

    pub(super) fn send(&self, bytes: &[u8]) {
        let _ = self.feed.send((Value::Null, bytes.to_vec()));
    }

    /// Renames a container, and returns its old name.
    pub(crate) fn rename(&mut self, id: &str, name: &str) -> String {
        let container = self.container_mut(id).unwrap();
        let before = std::mem::replace(&mut container.name, name.to_owned());
        self.container_event("rename", id);
        before
    }

    pub(super) fn listen(&self) -> broadcast::Receiver<(Value, Vec<u8>)> {
        self.feed.subscribe()
    }

    pub(super) fn container_event(&self, action: &str, id: &str) {
        self.event_with(action, id, |_| {});
    }

    fn event_with(&self, action: &str, id: &str, add: impl FnOnce(&mut Value)) {
        let mut attributes = self.container(id).map_or(json!({}), |container| {
            let mut attributes = json!(container.labels);
            attributes["name"] = json!(container.name);
            attributes["exitCode"] = json!(container.exit_code.to_string());
            attributes
        });
        add(&mut attributes);
        self.emit("container", action, id, &attributes);
    }

    pub(crate) fn image_event(&self, action: &str, name: &str) {
        self.emit("image", action, name, &json!({ "name": name }));
    }

    fn id_of(&self, name: &str) -> Option<String> {
        let name = name.trim_start_matches('/');
        let exact = self.containers.iter().find(|one| one.id == name || one.name == name);
        let mut prefixed = self.containers.iter().filter(|one| one.id.starts_with(name));
        let found = exact.or_else(|| prefixed.next().filter(|_| prefixed.next().is_none()))?;
        (!name.is_empty()).then(|| found.id.clone())
    }

    fn make_image(&mut self, reference: &str) -> Image {
        let (id, name) = (format!("sha256:{}", self.fresh_id()), familiar(reference));
        let repository = match name.split_once('@') {
            Some((repository, _)) => repository.to_owned(),
            None => name.rsplit_once(':').map_or(name.as_str(), |(start, _)| start).to_owned(),
        };
        let by_digest = name.contains('@');
        let digest = if by_digest { name.clone() } else { format!("{repository}@{id}") };
        let tags = if by_digest { Vec::new() } else { vec![name] };
        let config = json!({ "User": "", "Labels": null });
        let files = BTreeMap::new();
        let parent = String::new();
        Image { id, tags, digests: vec![digest], size: 1_234_567, parent, config, files }
    }

    /// Whether other images are based on the image with this id.
    pub(super) fn is_parent(&self, id: &str) -> bool {
        self.images.iter().any(|image| image.parent == id)
    }

    pub(super) fn fresh_id(&mut self) -> String {
        self.serial += 1;
        // The multiplication spreads consecutive numbers, so that the prefixes of ids differ.
        let spread = self.serial.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{spread:016x}{:048x}", self.serial)
    }
}

/// Docker's short form of an image name, with the tag `latest` if the name has neither tag nor digest.
pub(super) fn familiar(name: &str) -> String {
    let name = name.strip_prefix("docker.io/").unwrap_or(name);
    let name = name.strip_prefix("library/").unwrap_or(name);
    let last = name.rsplit('/').next().unwrap_or_default();
    if last.contains(':') || last.contains('@') {
        name.to_owned()
    } else {
        format!("{name}:latest")
    }
}

pub(super) fn now() -> String {
    jiff::Timestamp::now().to_string()
}

fn strings(value: &Value) -> BTreeMap<String, String> {
    serde_json::from_value(value.clone()).unwrap_or_default()
}
