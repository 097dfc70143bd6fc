//! The effects of the engine's endpoints in the fake dockerd, with Docker's error messages.

use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::broadcast;

use super::{
    exec::{self, Takeover},
    server::Speaks,
    wire::{self, Recorded},
    world::{Container, Image, World, familiar},
};

/// The fake dockerd's answer to a request.
pub(super) enum Answer {
    Ping {
        newest: String,
    },
    Json(u16, Value),
    /// The facts about a path in a container, and an archive of the path unless only the facts were requested.
    Archive(String, Vec<u8>),
    /// The connection is hijacked for the streams of a process.
    Hijack(Takeover),
    /// A stream of the JSON messages of a pull or a load.
    Stream(Vec<Value>),
    /// A stream of events of these types and actions. An empty list means all types or all actions.
    Events(broadcast::Receiver<(Value, Vec<u8>)>, Vec<String>, Vec<String>),
}

pub(super) async fn answer(world: &Mutex<World>, speaks: Speaks, request: &Recorded) -> Answer {
    if let Some(refusal) = wrong_version(speaks, request) {
        return refusal;
    }
    if request.path.contains("//") || request.path.split('/').any(|step| step == "..") {
        // Docker's router also redirects a request whose decoded path is not clean.
        return Answer::Json(301, Value::Null);
    }
    let steps: Vec<&str> = request.path.trim_start_matches('/').split('/').collect();
    match (request.method.as_str(), steps.as_slice()) {
        ("GET" | "HEAD", ["_ping"]) => Answer::Ping { newest: format!("1.{}", speaks.newest) },
        ("GET", ["version"]) => ok(version(&lock(world), speaks)),
        ("GET", ["info"]) => ok(lock(world).info.clone()),
        ("GET", ["system", "df"]) => ok(disk_usage(&lock(world), request)),
        ("GET", ["events"]) => events(&lock(world), request),
        ("GET", ["containers", "json"]) => list_containers(&lock(world), request),
        ("POST", ["containers", "create"]) => create(&mut lock(world), request),
        ("GET", ["containers", id, "json"]) => {
            with(world, id, |world, one| ok(inspect(world, one)))
        }
        ("GET" | "HEAD", ["containers", id, "archive"]) => {
            with(world, id, |world, one| archive(world, one, request))
        }
        ("POST", ["containers", id, "start"]) => with(world, id, start),
        ("POST", ["containers", id, "stop"]) => stop(world, id, request).await,
        ("POST", ["containers", id, "kill"]) => {
            with(world, id, |world, one| kill(world, one, request))
        }
        ("POST", ["containers", id, "wait"]) => wait(world, id).await,
        ("POST", ["containers", id, "update"]) => {
            with(world, id, |world, one| update(world, one, request))
        }
        ("DELETE", ["containers", id]) => remove(world, id, request).await,
        ("POST", ["containers", id, "exec"]) => exec::create(&mut lock(world), id, request),
        ("POST", ["containers", id, "attach"]) => exec::attach(&mut lock(world), id),
        ("POST", ["containers", id, "resize"]) => {
            with(world, id, |_, _| Answer::Json(200, Value::Null))
        }
        ("POST", ["exec", id, "start"]) => exec::start(&mut lock(world), id),
        ("POST", ["exec", id, "resize"]) => exec::resize(&mut lock(world), id, request),
        ("GET", ["exec", id, "json"]) => exec::inspect(&mut lock(world), id),
        ("GET", ["images", "json"]) => list_images(&lock(world)),
        ("POST", ["images", "create"]) => pull(&mut lock(world), request),
        ("POST", ["images", "load"]) => load(&mut lock(world), request),
        ("GET", ["images", name @ .., "json"]) => inspect_image(&lock(world), &name.join("/")),
        ("DELETE", ["images", name @ ..]) => remove_image(&mut lock(world), &name.join("/")),
        _ => Answer::Json(404, json!({ "message": "page not found" })),
    }
}

fn wrong_version(speaks: Speaks, request: &Recorded) -> Option<Answer> {
    let stated = request.version.as_ref()?;
    let minor: u16 = stated.trim_start_matches("1.").parse().ok()?;
    let Speaks { newest, oldest } = speaks;
    let text = if minor > newest {
        format!("client version {stated} is too new. Maximum supported API version is 1.{newest}")
    } else if minor < oldest {
        format!(
            "client version {stated} is too old. Minimum supported API version is 1.{oldest}, \
             please upgrade your client to a newer version"
        )
    } else {
        return None;
    };
    Some(refuse(400, &text))
}

fn version(world: &World, speaks: Speaks) -> Value {
    json!({
        "Version": world.release, "ApiVersion": format!("1.{}", speaks.newest),
        "MinAPIVersion": format!("1.{}", speaks.oldest), "KernelVersion": "6.1.0",
        "Os": "linux", "Arch": "amd64",
    })
}

fn disk_usage(world: &World, request: &Recorded) -> Value {
    let total: u64 = world.images.iter().map(|image| image.size).sum();
    let minor = request.version.as_deref().and_then(|v| v.strip_prefix("1.")?.parse::<u16>().ok());
    if minor.is_some_and(|minor| minor >= 52) {
        json!({ "ImageUsage": { "TotalSize": total, "TotalCount": world.images.len() } })
    } else {
        json!({ "LayersSize": total, "Images": [], "Containers": [] })
    }
}

fn events(world: &World, request: &Recorded) -> Answer {
    let filters: Value = serde_json::from_str(request.parameter("filters")).unwrap_or_default();
    Answer::Events(world.listen(), words(&filters["type"]), words(&filters["event"]))
}

fn list_containers(world: &World, request: &Recorded) -> Answer {
    let filters: Value = serde_json::from_str(request.parameter("filters")).unwrap_or_default();
    let (labels, ids) = (words(&filters["label"]), words(&filters["id"]));
    let ancestors = words(&filters["ancestor"]);
    let all = matches!(request.parameter("all"), "1" | "true");
    let wanted = |container: &&Container| {
        let labelled = labels.iter().all(|label| match label.split_once('=') {
            Some((key, value)) => container.labels.get(key).is_some_and(|held| held == value),
            None => container.labels.contains_key(label),
        });
        let listed = ids.is_empty() || ids.iter().any(|id| container.id.starts_with(id));
        let made_of = ancestors.is_empty() || ancestors.contains(&container.image);
        labelled && listed && made_of && (all || container.status == "running")
    };
    let list = world.containers.iter().filter(wanted).map(|container| {
        json!({
            "Id": container.id, "Names": [format!("/{}", container.name)],
            "ImageID": container.image, "Labels": container.labels, "State": container.status,
            "Image": container.body["Image"],
            "Status": match container.status.as_str() {
                "exited" => format!("Exited ({}) 2 seconds ago", container.exit_code),
                other => other.to_owned(),
            },
            "Created": container.created.parse::<jiff::Timestamp>().map_or(0, jiff::Timestamp::as_second),
            "HostConfig": {
                "NetworkMode": container.body["HostConfig"]["NetworkMode"].as_str().unwrap_or("default"),
            },
        })
    });
    ok(list.collect())
}

fn create(world: &mut World, request: &Recorded) -> Answer {
    let (name, body) = (request.parameter("name"), request.json());
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    if name.len() < 2 || !name.bytes().all(plain) {
        return refuse(
            400,
            &format!("Invalid container name ({name}), only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"),
        );
    }
    let image = body["Image"].as_str().unwrap_or_default();
    if world.image(image).is_none() {
        return refuse(404, &format!("No such image: {image}"));
    }
    if let Some(holder) = world.containers.iter().find(|one| one.name == name) {
        let text = format!(
            "Conflict. The container name \"/{name}\" is already in use by container \"{}\". You \
             have to remove (or rename) that container to be able to reuse that name.",
            holder.id
        );
        return refuse(409, &text);
    }
    if world.buffers_logs && body["HostConfig"]["LogConfig"]["Config"]["mode"] == "blocking" {
        return refuse(
            400,
            "logger: max-buffer-size option is only supported with 'mode=non-blocking'",
        );
    }
    let id = world.add_container(name, body);
    Answer::Json(201, json!({ "Id": id, "Warnings": [] }))
}

fn archive(world: &World, container: &Container, request: &Recorded) -> Answer {
    let path = request.parameter("path");
    let image = world.image(&container.image).cloned().unwrap_or_default();
    let Some(text) = image.files.get(path) else {
        let text = format!("Could not find the file {path} in container {}", container.id);
        return refuse(404, &text);
    };
    let name = path.rsplit('/').next().unwrap_or_default();
    let link = text.strip_prefix("-> ").unwrap_or_default();
    let mode: u32 = match text.as_str() {
        "a pipe" => 1 << 25 | 0o644,
        _ if link.is_empty() => 0o644,
        _ => 1 << 27 | 0o777,
    };
    let stat = json!({ "name": name, "size": text.len(), "mode": mode, "linkTarget": link });
    let body = if request.method == "HEAD" { Vec::new() } else { wire::tar(name, text) };
    Answer::Archive(stat.to_string(), body)
}

fn start(world: &mut World, container: &Container) -> Answer {
    if container.status == "running" {
        return Answer::Json(304, Value::Null);
    }
    let mode = container.body["HostConfig"]["NetworkMode"].as_str().unwrap_or_default();
    if let Some(target) = mode.strip_prefix("container:") {
        let up = world.container(target).is_some_and(|one| one.status == "running");
        if !up {
            let text = format!("cannot join network of a non running container: {target}");
            return refuse(409, &text);
        }
    }
    world.start(&container.id);
    Answer::Json(204, Value::Null)
}

async fn stop(world: &Mutex<World>, name: &str, request: &Recorded) -> Answer {
    let Some(container) = lock(world).container(name).cloned() else { return no_container(name) };
    if container.status != "running" {
        return Answer::Json(304, Value::Null);
    }
    let grace = Duration::from_secs(request.parameter("t").parse().unwrap_or(10));
    let killed = container.takes_to_stop > grace;
    tokio::time::sleep(container.takes_to_stop.min(grace)).await;
    let mut world = lock(world);
    if world.container(&container.id).is_some_and(|one| one.status == "running") {
        world.signal(&container.id, if killed { "9" } else { "15" });
        world.exit(&container.id, if killed { 137 } else { 143 });
    }
    Answer::Json(204, Value::Null)
}

fn kill(world: &mut World, container: &Container, request: &Recorded) -> Answer {
    if container.status != "running" {
        let text = format!("Cannot kill container: {}: Container {0} is not running", container.id);
        return refuse(409, &text);
    }
    let signal = request.parameter("signal");
    let is_deadly = matches!(signal, "" | "SIGKILL" | "KILL" | "9");
    world.signal(&container.id, if is_deadly { "9" } else { "15" });
    match signal {
        _ if is_deadly => world.exit(&container.id, 137),
        _ if container.takes_to_stop.is_zero() => world.exit(&container.id, 143),
        _ => {}
    }
    Answer::Json(204, Value::Null)
}

async fn wait(world: &Mutex<World>, name: &str) -> Answer {
    let Some(id) = lock(world).container(name).map(|one| one.id.clone()) else {
        return no_container(name);
    };
    while lock(world).container(&id).is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ok(json!({ "StatusCode": 0 }))
}

async fn remove(world: &Mutex<World>, name: &str, request: &Recorded) -> Answer {
    let Some(container) = lock(world).container(name).cloned() else { return no_container(name) };
    if container.status == "removing" {
        let text = format!("removal of container {} is already in progress", container.id);
        return refuse(409, &text);
    }
    let force = matches!(request.parameter("force"), "1" | "true");
    if container.status == "running" && !force {
        let text = format!(
            "You cannot remove a running container {}. Stop the container before attempting \
             removal or force remove",
            container.id
        );
        return refuse(409, &text);
    }
    begin_removal(&mut lock(world), &container);
    tokio::time::sleep(container.takes_to_remove).await;
    lock(world).remove(&container.id);
    Answer::Json(204, Value::Null)
}

fn begin_removal(world: &mut World, container: &Container) {
    if container.status == "running" {
        world.exit(&container.id, 137);
    }
    if let Some(one) = world.container_mut(&container.id) {
        one.status = "removing".to_owned();
    }
}

/// Sets the limits in the request's body. Other limits of the container stay unchanged.
fn update(world: &mut World, container: &Container, request: &Recorded) -> Answer {
    let stated = request.json();
    if let Some(one) = world.container_mut(&container.id) {
        let host = &mut one.body["HostConfig"];
        for (key, value) in stated.as_object().into_iter().flatten() {
            host[key] = value.clone();
        }
    }
    world.container_event("update", &container.id);
    ok(json!({ "Warnings": null }))
}

fn inspect(world: &World, container: &Container) -> Value {
    let mut config = container.body.clone();
    let host = config["HostConfig"].take();
    config["Labels"] = json!(container.labels);
    add_of_image(&mut config, world.image(&container.image));
    let mode = host["NetworkMode"].as_str().unwrap_or("default");
    let log_path = match &container.stated_log {
        Some(path) => path.into(),
        None => world.log_path(&container.id),
    };
    let networks = match mode {
        "default" | "bridge" if container.status == "running" => {
            json!({ "bridge": { "IPAddress": "172.17.0.2", "GlobalIPv6Address": "" } })
        }
        mode => json!({ mode: { "IPAddress": "", "GlobalIPv6Address": "" } }),
    };
    let selinux = world.info["SecurityOptions"].to_string().contains("selinux");
    json!({
        "Id": container.id, "Name": format!("/{}", container.name), "Created": container.created,
        "Image": container.image, "LogPath": log_path, "Config": config,
        "State": {
            "Status": container.status, "Running": container.status == "running",
            "Pid": container.pid, "ExitCode": container.exit_code, "Error": container.error,
            "OOMKilled": container.oom_killed, "StartedAt": container.started,
            "FinishedAt": container.finished,
        },
        "MountLabel": if selinux { "system_u:object_r:container_file_t:s0:c1,c2" } else { "" },
        "HostConfig": host,
        "NetworkSettings": { "Networks": networks },
    })
}

/// If the request has no entrypoint, adds the image's entrypoint, and also the image's command if the request
/// has none. Appends the image's environment variables, except those that the request sets.
fn add_of_image(config: &mut Value, image: Option<&Image>) {
    let Some(image) = image.map(|image| &image.config) else { return };
    if config["Entrypoint"].is_null() {
        config["Entrypoint"] = image["Entrypoint"].clone();
        if config["Cmd"].is_null() {
            config["Cmd"] = image["Cmd"].clone();
        }
    }
    let name = |text: &Value| text.as_str().and_then(|it| it.split('=').next()).map(str::to_owned);
    let mut env = config["Env"].as_array().cloned().unwrap_or_default();
    for variable in image["Env"].as_array().into_iter().flatten() {
        if !env.iter().any(|known| name(known) == name(variable)) {
            env.push(variable.clone());
        }
    }
    config["Env"] = json!(env);
}

/// Like Docker with a graph driver, leaves out images without a name on which other images are based.
fn list_images(world: &World) -> Answer {
    let has_name = |image: &Image| !image.tags.is_empty() || !image.digests.is_empty();
    let shown = world.images.iter().filter(|image| has_name(image) || !world.is_parent(&image.id));
    let list = shown.map(|image| {
        json!({
            "Id": image.id, "RepoTags": image.tags, "RepoDigests": image.digests,
            "Size": image.size, "Containers": -1, "Labels": image.config["Labels"],
        })
    });
    ok(list.collect())
}

fn inspect_image(world: &World, name: &str) -> Answer {
    let Some(image) = world.image(name) else { return no_image(name) };
    ok(json!({
        "Id": image.id, "RepoTags": image.tags, "RepoDigests": image.digests,
        "Size": image.size, "Config": image.config, "Os": "linux",
    }))
}

fn pull(world: &mut World, request: &Recorded) -> Answer {
    let (repository, tag) = (request.parameter("fromImage"), request.parameter("tag"));
    let separator = if tag.contains(':') { '@' } else { ':' };
    let name = familiar(&format!("{repository}{separator}{tag}"));
    let known = |image: &&Image| image.tags.contains(&name) || image.digests.contains(&name);
    let Some(offered) = world.registry.iter().find(known).cloned() else {
        let text = format!("manifest for {name} not found: manifest unknown: manifest unknown");
        return refuse(404, &text);
    };
    receive(world, &offered, &name);
    Answer::Stream(vec![
        json!({ "status": format!("Pulling from {repository}"), "id": tag }),
        json!({ "status": "Pulling fs layer", "progressDetail": {}, "id": "aaaaaaaaaaaa" }),
        json!({ "status": "Downloading", "id": "aaaaaaaaaaaa",
                "progressDetail": { "current": 10, "total": 100 }, "progress": "[=>  ]" }),
        json!({ "status": "Pull complete", "progressDetail": {}, "id": "aaaaaaaaaaaa" }),
        json!({ "status": format!("Status: Downloaded newer image for {name}") }),
    ])
}

/// Adds a pulled image. An image that was pulled by digest gets no tag, as with Docker.
fn receive(world: &mut World, offered: &Image, name: &str) {
    let by_digest = name.contains('@');
    let held = world.images.iter_mut().find(|image| image.id == offered.id);
    match held {
        Some(image) if !by_digest && !image.tags.iter().any(|tag| tag == name) => {
            image.tags.push(name.to_owned());
        }
        Some(_) => {}
        None => {
            let tags = if by_digest { Vec::new() } else { vec![name.to_owned()] };
            world.images.push(Image { tags, ..offered.clone() });
        }
    }
    world.image_event("pull", name);
}

/// Loads an archive: the image gets the name that the archive contains as `"RepoTags":["…"]`, and the digest
/// of the configuration as its id if the archive contains it. An image that had this name loses the name.
fn load(world: &mut World, request: &Recorded) -> Answer {
    let text = String::from_utf8_lossy(&request.body);
    let after = |key: &str| Some(text.split_once(key)?.1.split_once('"')?.0);
    match after("\"RepoTags\":[\"") {
        Some(name) => {
            let id = after("\"Config\":\"blobs/sha256/").map(|hex| format!("sha256:{hex}"));
            world.images.retain(|image| id.as_ref() != Some(&image.id));
            for image in &mut world.images {
                image.tags.retain(|tag| tag != name);
            }
            world.add_image_of(name, id);
            Answer::Stream(vec![json!({ "stream": format!("Loaded image: {name}\n") })])
        }
        None => Answer::Stream(vec![json!({
            "errorDetail": { "message": "invalid archive: does not contain a manifest.json" },
            "error": "invalid archive: does not contain a manifest.json",
        })]),
    }
}

fn remove_image(world: &mut World, name: &str) -> Answer {
    let Some(image) = world.image(name).cloned() else { return no_image(name) };
    let name = familiar(name);
    let names = image.tags.len();
    let by_name = image.tags.contains(&name) || image.digests.contains(&name);
    if !by_name && names > 1 {
        let short = &image.id["sha256:".len()..][..12];
        let text = format!(
            "conflict: unable to delete {short} (must be forced) - image is referenced in \
             multiple repositories"
        );
        return refuse(409, &text);
    }
    if (!by_name || names <= 1) && world.containers.iter().any(|one| one.image == image.id) {
        let short = &image.id["sha256:".len()..][..12];
        let text = if by_name {
            format!(
                "conflict: unable to remove repository reference \"{name}\" (must force) - \
                 container aaaaaaaaaaaa is using its referenced image {short}"
            )
        } else {
            format!(
                "conflict: unable to delete {short} (must be forced) - image is being used by \
                 stopped container aaaaaaaaaaaa"
            )
        };
        return refuse(409, &text);
    }
    if !by_name && world.is_parent(&image.id) {
        let text =
            "conflict: unable to delete (cannot be forced) - image has dependent child images";
        return refuse(409, text);
    }
    untag(world, &image, by_name.then_some(&name))
}

fn untag(world: &mut World, image: &Image, name: Option<&String>) -> Answer {
    let mut done = Vec::new();
    for held in world.images.iter_mut().filter(|one| one.id == image.id) {
        let gone = |one: &String| name.is_none_or(|name| one == name);
        done.extend(held.tags.iter().filter(|one| gone(one)).map(|one| json!({ "Untagged": one })));
        held.tags.retain(|one| !gone(one));
        held.digests.retain(|one| !gone(one));
    }
    world.image_event("untag", &image.id);
    let empty = |one: &Image| one.id == image.id && one.tags.is_empty();
    if world.images.iter().any(empty) && !world.is_parent(&image.id) {
        world.images.retain(|one| !empty(one));
        world.image_event("delete", &image.id);
        done.push(json!({ "Deleted": image.id }));
    }
    ok(done.into())
}

fn with(
    world: &Mutex<World>,
    name: &str,
    work: impl FnOnce(&mut World, &Container) -> Answer,
) -> Answer {
    let mut world = lock(world);
    match world.container(name).cloned() {
        Some(container) => work(&mut world, &container),
        None => no_container(name),
    }
}

pub(super) fn ok(body: Value) -> Answer {
    Answer::Json(200, body)
}

pub(super) fn refuse(status: u16, message: &str) -> Answer {
    Answer::Json(status, json!({ "message": message }))
}

fn no_container(name: &str) -> Answer {
    refuse(404, &format!("No such container: {name}"))
}

fn no_image(name: &str) -> Answer {
    refuse(404, &format!("No such image: {name}"))
}

fn words(value: &Value) -> Vec<String> {
    // Clients send filters as lists of words, or as objects with words as keys.
    match value {
        Value::Array(list) => {
            list.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
        }
        Value::Object(map) => map.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

pub(super) fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
