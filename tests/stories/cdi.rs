//! CDI devices, which vendors describe in specification files. If the engine cannot apply specification files,
//! dockbridge applies them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use dockbridge::wire::cri;
use serde_json::{Value, json};
use tonic::Code;

use crate::machine::left_out;
use crate::skips::{Lack, skip};
use crate::support::{
    failure::{Outcome, ensure, ensure_eq},
    stage::Stage,
    world::World,
};

/// With an engine that lacks CDI, dockbridge reads the specification files, and refuses devices that are not
/// defined, are defined twice in one directory, or do not exist on the host. If the engine also lacks
/// `dockbridge-runtime`, dockbridge refuses a device with hooks, for which the Engine API has no field.
pub(crate) async fn read_here(world: World) -> Outcome {
    let stage = Stage::docker(&world, "cdi_here").await?;
    if !engine_directories(&stage).await?.is_empty() {
        skip(Lack::EngineWithoutCdi);
        return stage.leaves_nothing().await;
    }
    let folder = write_specifications(&stage)?;
    let mut stage = stage;
    stage.cri = stage.bridge.restart_with(&["--cdi-spec-dirs", &shown(&folder)]).await?;
    let pod = stage.recipes.pod("gadgets");
    let sandbox = stage.cri.run(&pod).await?;
    let mut wanted = gadget(&stage, "main", "one");
    wanted.cdi_devices.push(cri::CdiDevice { name: "vendor.example/group=one".to_owned() });
    let ids = stage.up(&sandbox, &pod, &[wanted]).await?;
    has_the_gadget(&stage, &ids[0]).await?;
    let groups = stage.engine.inside(&ids[0], "grep Groups /proc/1/status").await?;
    ensure!(groups.split_whitespace().any(|group| group == "4242"), "the groups are {groups}");

    if world.has_oci_runtime {
        let hooked = gadget(&stage, "side", "hooked");
        stage.up(&sandbox, &pod, &[hooked]).await?;
        ensure!(stage.folders.shared.join("hooked").exists(), "the hook was not run");
    } else {
        let message = refusal(&stage, (&sandbox, &pod), "gadget=hooked").await?;
        for hint in ["gadget.yaml", "no field for the hooks", "dockbridge setup"] {
            ensure!(message.contains(hint), "hooks are answered {message:?} without {hint:?}");
        }
    }
    let broken = shown(&folder.join("broken.yaml"));
    for (device, hints) in [
        ("gadget=none", ["is not defined in any specification of", shown(&folder).as_str()]),
        ("gadget=absent", ["gadget.yaml", "/dev/none-such"]),
        ("broken=one", ["is not defined in any specification of", &format!("{broken} line 3: ")]),
        ("twice=one", ["twice-a.json", "twice-b.json"]),
    ] {
        let message = refusal(&stage, (&sandbox, &pod), device).await?;
        for hint in hints {
            ensure!(message.contains(hint), "{device} is answered {message:?} without {hint:?}");
        }
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// An engine with CDI applies the specification files itself, with their hooks. If dockbridge can read all
/// specification files, and none defines a requested device, dockbridge refuses the container.
pub(crate) async fn read_by_the_engine(world: World) -> Outcome {
    if world.docker_major < 25 {
        return left_out(Lack::YoungEngine);
    }
    let stage = Stage::docker(&world, "cdi_engine").await?;
    let folder = write_specifications(&stage)?;
    // If dockbridge cannot read a file, such as `broken.yaml`, it leaves the check of devices to the engine. This test
    // uses only `gadget.yaml`.
    for file in ["broken.yaml", "twice-a.json", "twice-b.json", "group.json"] {
        fs::remove_file(folder.join(file))?;
    }
    let configured = Configured::write(&world, &folder)?;
    let mut stage = stage;
    stage.engine.control(&["restart"]).await?;
    stage.cri = stage.bridge.restart().await?;
    ensure_eq!(engine_directories(&stage).await?, [shown(&folder)]);

    let pod = stage.recipes.pod("gadgets");
    let sandbox = stage.cri.run(&pod).await?;
    let wanted = [gadget(&stage, "main", "one"), gadget(&stage, "side", "hooked")];
    let ids = stage.up(&sandbox, &pod, &wanted).await?;
    has_the_gadget(&stage, &ids[0]).await?;
    ensure!(stage.folders.shared.join("hooked").exists(), "the hook was not run");
    let message = refusal(&stage, (&sandbox, &pod), "gadget=none").await?;
    ensure!(
        message.contains("is not defined in any specification of"),
        "an unknown device: {message:?}"
    );
    stage.cri.clear().await?;
    drop(configured);
    stage.engine.control(&["restart"]).await?;
    stage.leaves_nothing().await
}

/// A container that requests a CDI device of the kind `vendor.example/gadget`.
fn gadget(stage: &Stage, name: &str, device: &str) -> cri::ContainerConfig {
    let name_of = |device: &str| cri::CdiDevice { name: format!("vendor.example/gadget={device}") };
    cri::ContainerConfig { cdi_devices: vec![name_of(device)], ..stage.recipes.sleeper(name) }
}

/// Checks that the container has the variables, the device file and the mount of the gadget `one`, with the
/// right values.
async fn has_the_gadget(stage: &Stage, id: &str) -> Outcome {
    let inside = |line: &'static str| stage.engine.inside(id, line);
    let variables = inside("tr '\\0' '\\n' </proc/1/environ | grep ^GADGET | sort").await?;
    ensure_eq!(variables, "GADGET=one\nGADGETS=all");
    ensure_eq!(inside("test -c /dev/gadget0 && stat -c %t:%T /dev/gadget0").await?, "1:7");
    let full = inside("(echo x >/dev/gadget0) 2>&1 || true").await?;
    ensure!(full.contains("No space left"), "writing to the node says {full:?}");
    ensure_eq!(inside("cat /opt/gadget/driver").await?, "a driver");
    let written = inside("touch /opt/gadget/driver 2>&1 || true").await?;
    ensure!(written.contains("Read-only"), "writing to the mount says {written:?}");
    Ok(())
}

/// Checks that dockbridge refuses a container that requests `device` of the invented vendor, and returns the error.
async fn refusal(
    stage: &Stage,
    (sandbox, pod): (&str, &cri::PodSandboxConfig),
    device: &str,
) -> Outcome<String> {
    let name = format!("vendor.example/{device}");
    let mut container = stage.recipes.sleeper("refused");
    container.cdi_devices = vec![cri::CdiDevice { name: name.clone() }];
    let answer = stage.cri.create(sandbox, &container, pod).await;
    let Err(status) = answer else { crate::support::failure::fail!("{name} was not refused") };
    ensure_eq!(status.code, Code::FailedPrecondition, "{status}");
    ensure!(status.message.contains(&format!("CDI device \"{name}\"")), "{status}");
    Ok(status.message)
}

/// The directories from which the engine itself reads CDI specifications.
async fn engine_directories(stage: &Stage) -> Outcome<Vec<String>> {
    let info = stage.engine.docker(&["info", "-f", "{{json .}}"]).await?;
    let info: Value = serde_json::from_str(&info)?;
    let directories = info["CDISpecDirs"].as_array().cloned().unwrap_or_default();
    Ok(directories.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// Writes CDI specifications of an invented vendor, and returns their directory.
fn write_specifications(stage: &Stage) -> Outcome<PathBuf> {
    let shared = &stage.folders.shared;
    let folder = shared.join("cdi");
    fs::create_dir_all(&folder)?;
    fs::create_dir_all(shared.join("opt"))?;
    fs::write(shared.join("opt/driver"), "a driver\n")?;
    let text = format!(
        "cdiVersion: 0.6.0
kind: vendor.example/gadget
containerEdits:
  env: [GADGETS=all]
devices:
- name: one
  containerEdits:
    env: [GADGET=one]
    deviceNodes:
    - {{path: /dev/gadget0, hostPath: /dev/full, type: c, permissions: rw}}
    mounts:
    - {{hostPath: {opt}, containerPath: /opt/gadget, options: [ro, nosuid, nodev, bind]}}
- name: hooked
  containerEdits:
    hooks:
    - {{hookName: createRuntime, path: /bin/touch, args: [touch, {hooked}]}}
- name: absent
  containerEdits:
    deviceNodes: [{{path: /dev/none-such}}]
",
        opt = shared.join("opt").display(),
        hooked = shared.join("hooked").display(),
    );
    fs::write(folder.join("gadget.yaml"), text)?;
    fs::write(
        folder.join("broken.yaml"),
        "cdiVersion: 0.6.0\nkind: vendor.example/broken\ndevice: []\n",
    )?;
    let twice = one_device("vendor.example/twice", &json!({}));
    fs::write(folder.join("twice-a.json"), &twice)?;
    fs::write(folder.join("twice-b.json"), &twice)?;
    let group = one_device("vendor.example/group", &json!({"additionalGids": [4242]}));
    fs::write(folder.join("group.json"), group)?;
    Ok(folder)
}

fn one_device(kind: &str, edits: &Value) -> String {
    let devices = json!([{"name": "one", "containerEdits": edits}]);
    json!({"cdiVersion": "0.7.0", "kind": kind, "devices": devices}).to_string()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// A changed `daemon.json`, which the engine reads at its start. The old text is restored when the value is dropped.
struct Configured {
    file: PathBuf,
    before: String,
}

impl Configured {
    fn write(world: &World, folder: &Path) -> Outcome<Self> {
        let file = world.root.join("docker/daemon.json");
        let before = fs::read_to_string(&file)?;
        let mut settings: Value = serde_json::from_str(&before)?;
        settings["features"]["cdi"] = json!(true);
        settings["cdi-spec-dirs"] = json!([shown(folder)]);
        fs::write(&file, settings.to_string())?;
        Ok(Self { file, before })
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        fs::write(&self.file, &self.before).unwrap_or_default();
    }
}
