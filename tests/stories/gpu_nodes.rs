//! Tests nodes whose default runtime is not runc but runs runc, as NVIDIA's does. In these tests, a fake
//! runtime (the stand-in) changes the bundle and runs the runtime that its own configuration names.

use std::{
    convert::Infallible,
    fs,
    io::Write as _,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use dockbridge::{
    model::oci_edits::RUNTIME,
    wire::{cri, nri},
};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use prost::Message as _;
use serde_json::{Value, json};
use tonic::Code;

use crate::{
    nri_plugin::{Plugin, Reply, Told, adjusts},
    restarts::until_ready,
    security::said,
    setup::Setup,
    skips::{Lack, skip},
    support::{
        failure::{Failure, Outcome, ensure, ensure_eq, fail},
        stage::Stage,
        world::World,
    },
    user_namespaces::{mapped, mapped_pod},
};

/// With the fake runtime (the stand-in) as default runtime, user namespaces, CDI devices with hooks and NRI plugins
/// work, and the stand-in also changes the bundle. These features also work if the stand-in is the handler of a pod,
/// and if the stand-in runs `dockbridge-runtime` instead of runc.
pub(crate) async fn chain_runtimes(world: World) -> Outcome {
    if !world.has_oci_runtime {
        skip(Lack::OciRuntime);
        return Ok(());
    }
    let (mut stage, socket) = Stage::with_plugins(&world, "gpu_chain").await?;
    let node = Node::of(&stage)?;
    node.write(true)?;
    let outcome = async {
        let devices = node.devices.display().to_string();
        stage.engine.control(&["restart"]).await?;
        stage.cri = stage.bridge.restart_with(&["--cdi-spec-dirs", &devices]).await?;
        shown_by_setup(&world, &node).await?;
        let ours = world.root.join("bin/dockbridge-runtime");
        for (handler, below) in [("", "runc".into()), ("site", "runc".into()), ("", ours)] {
            node.runs(&below)?;
            chained(&stage, &node, &socket, handler).await?;
        }
        outlived(&stage, &node).await?;
        not_wrapped(&stage).await
    };
    let outcome = outcome.await;
    node.put_back()?;
    stage.engine.control(&["restart"]).await?;
    outcome?;
    until_ready(&stage.cri).await?;
    stage.leaves_nothing().await
}

async fn shown_by_setup(world: &World, node: &Node) -> Outcome {
    let setup = Setup::of(world)?;
    let site = node.folder.join("site-runtime");
    let site =
        format!("\"site\" or without a handler: dockbridge-runtime runs {}\n", site.display());
    for shown in [site.as_str(), "\"silent\": dockbridge-runtime is not used: "] {
        setup.succeeds(&["--dry-run"], shown).await?;
    }
    setup.put_back()
}

async fn chained(stage: &Stage, node: &Node, socket: &Path, handler: &str) -> Outcome {
    let (cri, engine) = (&stage.cri, &stage.engine);
    fs::write(node.folder.join("calls"), "")?;
    let env = nri::KeyValue { key: "PLUGIN".to_owned(), value: "yes".to_owned() };
    let adjust = nri::ContainerAdjustment { env: vec![env], ..Default::default() };
    let plugin = Plugin::synchronised(socket, ("10", "gpu"), adjusts(adjust)).await;
    let pod = mapped_pod(stage, "gpu");
    let sandbox = cri.run_with(&pod, handler).await?;
    let mut main = mapped(stage.recipes.sleeper("main"));
    main.cdi_devices = vec![cri::CdiDevice { name: DEVICE.to_owned() }];
    let id = stage.up(&sandbox, &pod, &[main]).await?.remove(0);
    drop(plugin);

    for (line, found) in [
        ("cat /proc/self/uid_map | tr -s ' '", "0 200000 65536"),
        (
            "tr '\\0' '\\n' </proc/1/environ | grep -E '^(PLUGIN|CARD|STAND_IN)='",
            "CARD=stand-in.example/card=0\nPLUGIN=yes\nSTAND_IN=1",
        ),
        ("test -c /run/stand-in && head -c 3 /run/stand-in | wc -c", "3"),
        ("id -u", "0"),
    ] {
        let line = format!("{line} | sort");
        ensure_eq!(engine.inside(&id, &line).await?, found, "{handler:?}: {line}");
    }
    // The stand-in also changes the pause container.
    for (hook, run) in [("of-device", "run\n"), ("of-stand-in", "run\nrun\n")] {
        let file = node.folder.join(hook);
        ensure_eq!(fs::read_to_string(&file)?, run, "{handler:?}: {hook}");
        fs::remove_file(file)?;
    }
    for of in [&sandbox, &id] {
        let runtime = engine.docker(&["inspect", "-f", "{{.HostConfig.Runtime}}", of]).await?;
        ensure_eq!(runtime, RUNTIME, "{handler:?}");
    }
    ensure_eq!(cri.sandbox(&sandbox).await?.runtime_handler, handler);
    cri.stop_container(&id, 5).await?;
    ensure_eq!(cri.container(&id).await?.exit_code, 0, "{handler:?}: it was killed");
    cri.end(&sandbox).await?;

    let calls = fs::read_to_string(node.folder.join("calls"))?;
    let of_both =
        ["create", "start", "kill", "delete"].map(|command| [(command, &sandbox), (command, &id)]);
    for (command, of) in of_both.into_iter().flatten() {
        let call = format!("--site gpu {command} {of}");
        let made = calls.lines().filter(|made| **made == call).count();
        // The shim may call the runtime's `kill` and `delete` more than once.
        let is_right = if ["kill", "delete"].contains(&command) { made > 0 } else { made == 1 };
        ensure!(is_right, "{handler:?}: {call:?} was made {made} times of {calls}");
    }
    Ok(())
}

/// The program of the pod's runtime is removed while the pod runs, as by an uninstall of NVIDIA's toolkit. The
/// pod can still be stopped and removed, but a new pod with this runtime cannot start.
async fn outlived(stage: &Stage, node: &Node) -> Outcome {
    node.runs(Path::new("runc"))?;
    let cri = &stage.cri;
    let pod = mapped_pod(stage, "outlived");
    let sandbox = cri.run_with(&pod, "site").await?;
    let main = mapped(stage.recipes.sleeper("main"));
    let id = stage.up(&sandbox, &pod, &[main]).await?.remove(0);
    let (program, away) = (node.folder.join("site-runtime"), node.folder.join("away"));
    fs::rename(&program, &away)?;
    cri.stop_container(&id, 5).await?;
    ensure_eq!(cri.container(&id).await?.exit_code, 0, "it was killed");
    cri.end(&sandbox).await?;
    let refused = cri.run_with(&pod, "site").await;
    ensure!(refused.err().is_some_and(|it| it.message.contains("cannot run")), "it ran");
    cri.clear().await?;
    Ok(fs::rename(&away, &program)?)
}

/// Pods run without `dockbridge-runtime` if their handler is a containerd shim, or if the handler's program does not
/// report runc's version in its features. A pod does not start if the program of its handler does not exist.
async fn not_wrapped(stage: &Stage) -> Outcome {
    let handlers = stage.cri.status(false).await?.runtime_handlers;
    for (handler, is_there) in [("shim", true), ("silent", true), ("wrong", false)] {
        let of = handlers.iter().find(|one| one.name == handler).and_then(|one| one.features);
        ensure!(of.is_some_and(|features| !features.user_namespaces), "{handler}: {handlers:?}");
        let refused = stage.cri.run_with(&mapped_pod(stage, "mapped"), handler).await;
        said(refused, (Code::Unimplemented, "runtime"))?;
        let pod = stage.recipes.pod("plain");
        match stage.cri.run_with(&pod, handler).await {
            Ok(sandbox) => {
                ensure!(is_there, "{handler} ran");
                let inspect = ["inspect", "-f", "{{.HostConfig.Runtime}}", &sandbox];
                ensure_eq!(stage.engine.docker(&inspect).await?, handler);
                stage.cri.end(&sandbox).await?;
            }
            Err(refused) => {
                ensure!(!is_there && refused.message.contains("/no/runtime"), "{refused}");
            }
        }
    }
    Ok(())
}

/// Like GPU Operator's NRI plugin, a plugin adds the CDI devices that an annotation of the pod names for a container.
/// Like a driver of dynamic resource allocation, the test writes the CDI device of a claim right before a container
/// requests it. The test removes the CDI specifications before the pod.
pub(crate) async fn devices_of_plugins(world: World) -> Outcome {
    if !world.has_oci_runtime {
        skip(Lack::OciRuntime);
        return Ok(());
    }
    let (stage, socket) = Stage::with_plugins(&world, "gpu_devices").await?;
    let (cri, shared) = (&stage.cri, &stage.folders.shared);
    let directory = Path::new("/run/cdi");
    fs::create_dir_all(directory)?;
    let (card, claim) = (directory.join("card.json"), directory.join("claim.json"));
    write_device(&card, DEVICE, &shared.join("of-device"))?;
    let plugin = Plugin::synchronised(&socket, ("10", "operator"), by_annotation).await;
    let mut pod = stage.recipes.pod("gpu");
    pod.annotations.insert(format!("{DEVICES_OF}main"), DEVICE.to_owned());
    let sandbox = cri.run(&pod).await?;
    let mut claiming = stage.recipes.sleeper("claiming");
    claiming.cdi_devices = vec![cri::CdiDevice { name: CLAIM.to_owned() }];
    write_device(&claim, CLAIM, &shared.join("of-claim"))?;
    let containers = [stage.recipes.sleeper("main"), claiming, stage.recipes.sleeper("plain")];
    let ids = stage.up(&sandbox, &pod, &containers).await?;
    for (id, devices) in ids.iter().zip([DEVICE, CLAIM, ""]) {
        let line = "tr '\\0' '\\n' </proc/1/environ | sed -n s/^CARD=//p";
        ensure_eq!(stage.engine.inside(id, line).await?, devices);
    }
    for hook in ["of-device", "of-claim"] {
        ensure_eq!(fs::read_to_string(shared.join(hook))?, "run\n", "{hook}");
    }
    drop(plugin);
    fs::remove_file(claim)?;
    fs::remove_file(card)?;
    cri.clear().await?;
    stage.leaves_nothing().await
}

fn by_annotation(told: &Told) -> Reply {
    let mut answer = nri::CreateContainerResponse::default();
    if told.method == "CreateContainer" {
        let asked = nri::CreateContainerRequest::decode(told.payload.as_slice());
        let pod = asked.ok().and_then(|asked| asked.pod).unwrap_or_default();
        let names = pod.annotations.get(&format!("{DEVICES_OF}{}", told.container));
        let device = |name: &str| nri::CdiDevice { name: name.to_owned() };
        let cdi_devices = names.iter().flat_map(|names| names.split(',')).map(device).collect();
        answer.adjust = Some(nri::ContainerAdjustment { cdi_devices, ..Default::default() });
    }
    Reply::Yes(answer.encode_to_vec())
}

/// Without `dockbridge setup`, pods run with the default runtime, and dockbridge refuses requests that need
/// `dockbridge-runtime`.
pub(crate) async fn without_setup(world: World) -> Outcome {
    if world.docker_major < 24 {
        skip(Lack::YoungEngine);
        return Ok(());
    }
    let stage = Stage::cni(&world, "gpu_plain").await?;
    let node = Node::of(&stage)?;
    node.write(false)?;
    node.runs(Path::new("runc"))?;
    let outcome = async {
        stage.engine.control(&["restart"]).await?;
        until_ready(&stage.cri).await?;
        let pod = stage.recipes.pod("plain");
        let sandbox = stage.cri.run(&pod).await?;
        let id = stage.up(&sandbox, &pod, &[stage.recipes.sleeper("main")]).await?.remove(0);
        for of in [&sandbox, &id] {
            let inspect = ["inspect", "-f", "{{.HostConfig.Runtime}}", of];
            ensure_eq!(stage.engine.docker(&inspect).await?, "site");
        }
        let environment = "tr '\\0' '\\n' </proc/1/environ | grep -c ^STAND_IN=1";
        ensure_eq!(stage.engine.inside(&id, environment).await?, "1");
        let refused = stage.cri.run(&mapped_pod(&stage, "mapped")).await;
        said(refused, (Code::Unimplemented, "dockbridge setup"))?;
        stage.cri.clear().await
    };
    let outcome = outcome.await;
    node.put_back()?;
    stage.engine.control(&["restart"]).await?;
    outcome?;
    until_ready(&stage.cri).await?;
    stage.leaves_nothing().await
}

/// The engine's `daemon.json`, the stand-in's directory, and the directory of CDI specifications.
struct Node {
    world: World,
    folder: PathBuf,
    devices: PathBuf,
    file: PathBuf,
    before: String,
}

impl Node {
    fn of(stage: &Stage) -> Outcome<Self> {
        let folder = stage.folders.shared.join("stand-in");
        fs::create_dir(&folder)?;
        for (name, text) in [
            ("site-runtime", {
                let program = std::env::current_exe()?;
                format!("exec {} {STAND_IN} {} \"$@\"", program.display(), folder.display())
            }),
            // The command `features` of this runtime fails.
            ("silent-runtime", "[ \"$1\" != features ] || exit 1\nexec runc \"$@\"".to_owned()),
        ] {
            let path = folder.join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n"))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        // The directories above the bundles get the permissions that they have on a node where dockerd does not start
        // containerd.
        for closed in ["", "docker/exec", "docker/exec/containerd"] {
            let closed = stage.world.root.join(closed);
            fs::set_permissions(closed, fs::Permissions::from_mode(0o711))?;
        }
        let file = stage.world.root.join("docker/daemon.json");
        let before = fs::read_to_string(&file)?;
        let devices = folder.join("cdi");
        fs::create_dir(&devices)?;
        write_device(&devices.join("card.json"), DEVICE, &folder.join("of-device"))?;
        // For a container with a user namespace, runc mounts the host's device at the same path, so the test creates
        // this device.
        let (kind, mode) = (SFlag::S_IFCHR, Mode::from_bits_truncate(0o666));
        mknod(NODE, kind, mode, makedev(1, 5))?;
        let node = Self { world: stage.world.clone(), folder, devices, file, before };
        node.runs(Path::new("runc"))?;
        Ok(node)
    }

    /// Makes the stand-in the default runtime in `daemon.json`. `with_ours` keeps the runtime `dockbridge` there.
    fn write(&self, with_ours: bool) -> Outcome {
        let mut settings: Value = serde_json::from_str(&self.before)?;
        let path = |name: &str| self.folder.join(name).display().to_string();
        settings["default-runtime"] = json!("site");
        let runtimes = &mut settings["runtimes"];
        if !with_ours {
            *runtimes = json!({});
        }
        runtimes["site"] = json!({"path": path("site-runtime"), "runtimeArgs": ["--site gpu"]});
        runtimes["silent"] = json!({"path": path("silent-runtime")});
        runtimes["shim"] = json!({"runtimeType": "io.containerd.runc.v2"});
        runtimes["wrong"] = json!({"path": "/no/runtime"});
        // From version 28 on, the engine itself reads CDI specifications, and needs the same directory.
        if self.world.docker_major >= 28 {
            settings["cdi-spec-dirs"] = json!([self.devices]);
        }
        Ok(fs::write(&self.file, settings.to_string())?)
    }

    /// Writes the stand-in's own configuration, which names the runtime that the stand-in runs.
    fn runs(&self, below: &Path) -> Outcome {
        Ok(fs::write(self.folder.join("below"), below.display().to_string())?)
    }

    fn put_back(&self) -> Outcome {
        fs::remove_file(NODE)?;
        Ok(fs::write(&self.file, &self.before)?)
    }
}

/// Writes a CDI specification of one device, which has a variable with the device's name, a hook that writes
/// to a file, and a hook that reads the bundle.
fn write_device(specification: &Path, device: &str, hooked: &Path) -> Outcome {
    let Some((kind, name)) = device.split_once('=') else { fail!("{device}") };
    let mut hooks = [hook(hooked), hook(hooked)];
    hooks[0]["hookName"] = json!("createRuntime");
    (hooks[1]["hookName"], hooks[1]["args"][2]) = (json!("createContainer"), json!(READS_BUNDLE));
    let edits = json!({"env": [format!("CARD={device}")], "hooks": hooks});
    let devices = json!([{"name": name, "containerEdits": edits}]);
    let text = json!({"cdiVersion": "0.6.0", "kind": kind, "devices": devices});
    Ok(fs::write(specification, text.to_string())?)
}

/// A hook that adds a line to a file.
fn hook(file: &Path) -> Value {
    let line = format!("echo run >>{}", file.display());
    json!({"path": "/bin/sh", "args": ["sh", "-c", line]})
}

/// Runs the stand-in: it records its call, changes the bundle at `create`, and becomes the runtime that its
/// configuration names.
pub(crate) fn stand_in(words: &[String]) -> ExitCode {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Err(Failure(why)) = run_below(&words);
    eprintln!("stand-in {words:?}: {why}");
    ExitCode::FAILURE
}

fn run_below(words: &[&str]) -> Outcome<Infallible> {
    let [_, folder, flag, site, words @ ..] = words else { fail!("words are missing") };
    let folder = Path::new(folder);
    let command = words.iter().find(|word| COMMANDS.contains(word));
    let id = words.iter().find(|word| word.len() == LENGTH_OF_ID);
    if let Some((command, id)) = command.zip(id) {
        let call = format!("{flag} {site} {command} {id}\n");
        let calls = folder.join("calls");
        let mut file = fs::OpenOptions::new().create(true).append(true).open(calls)?;
        file.write_all(call.as_bytes())?;
    }
    if command == Some(&"create") {
        let mut after = words.iter().skip_while(|word| **word != "--bundle").skip(1);
        let config = Path::new(after.next().unwrap_or(&".")).join("config.json");
        let mut document: Value = serde_json::from_slice(&fs::read(&config)?)?;
        let device = json!({"path": NODE, "type": "c", "major": 1, "minor": 5, "fileMode": 0o666});
        let rule = json!({"allow": true, "type": "c", "major": 1, "minor": 5, "access": "rw"});
        push(&mut document["process"]["env"], json!("STAND_IN=1"));
        push(&mut document["linux"]["devices"], device);
        push(&mut document["linux"]["resources"]["devices"], rule);
        push(&mut document["hooks"]["createRuntime"], hook(&folder.join("of-stand-in")));
        fs::write(config, document.to_string())?;
    }
    let below = fs::read_to_string(folder.join("below"))?;
    Err(Command::new(below).args(words).exec().into())
}

fn push(list: &mut Value, value: Value) {
    if list.is_null() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut() {
        list.push(value);
    }
}

/// A hook that reads the bundle as the root user of the container's user namespace, like NVIDIA's hooks for links and
/// the linker's cache.
const READS_BUNDLE: &str =
    r#"read -r it; it=${it#*\"bundle\":\"}; it=${it%%\"*}; test -s $it/config.json"#;
/// The flag that makes this program the stand-in.
pub(crate) const STAND_IN: &str = "--stand-in";
/// The path of a character device, on the host and in containers. A world has its own `/run`.
const NODE: &str = "/run/stand-in";
/// The start of the annotation key from which GPU Operator's plugin reads the devices of a container.
const DEVICES_OF: &str = "nvidia.cdi.k8s.io/container.";
/// The name of a claim's CDI device, in the form that drivers use.
const CLAIM: &str = "k8s.stand-in.example/claim=0c7f6a52-card-0";
const DEVICE: &str = "stand-in.example/card=0";
const LENGTH_OF_ID: usize = 64;
const COMMANDS: [&str; 5] = ["create", "start", "kill", "delete", "exec"];
