//! Tests NRI plugins with a real engine: their events during whole lifecycles and after a crash of
//! dockbridge, their changes of containers, and plugins that refuse pods or hang.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use dockbridge::wire::nri;
use prost::Message as _;

use crate::nri_plugin::{Plugin, Reply, Told, adjusts};
use crate::support::{
    failure::{Failure, Outcome, ensure, ensure_eq},
    patience::Looks,
    stage::Stage,
    world::World,
};

/// A plugin gets all events of a pod with two containers, one of which ends on its own. A plugin that
/// connects after a kill of dockbridge gets the current state and all further events.
pub(crate) async fn told_of_whole_lives(world: World) -> Outcome {
    let (mut stage, socket) = Stage::with_plugins(&world, "nri_lives").await?;
    let plugin = Plugin::logger(&socket).await;
    let pod = stage.recipes.pod("p");
    let sandbox = stage.cri.run(&pod).await?;
    let containers = [stage.recipes.sleeper("main"), stage.recipes.container("short", "exit 3")];
    let ids = stage.up(&sandbox, &pod, &containers).await?;
    plugin.until("StopContainer").await;
    let begin = ["Configure", "Synchronize", "RunPodSandbox"];
    ensure_eq!(plugin.methods(), [&begin[..], &MADE, &MADE, &["StopContainer"]].concat());
    let told = plugin.told.lock().unwrap().clone();
    for (place, name) in [(3..8, "main"), (8..14, "short")] {
        let about: Vec<&str> = told[place].iter().map(|told| told.container.as_str()).collect();
        ensure!(about.iter().all(|about| *about == name), "{about:?} of {name}");
    }

    stage.cri = stage.bridge.crash().await?;
    plugin.ended.await?;
    let plugin = Plugin::logger(&socket).await;
    let known = plugin.told.lock().unwrap()[1].payload.clone();
    let known = nri::SynchronizeRequest::decode(known.as_slice())?;
    ensure_eq!(known.pods.iter().map(|pod| &pod.id).collect::<Vec<_>>(), [&sandbox]);
    let state = |id: &String| {
        known.containers.iter().find(|known| known.id == *id).map(nri::Container::state)
    };
    ensure_eq!(state(&ids[0]), Some(nri::ContainerState::ContainerRunning));
    ensure_eq!(state(&ids[1]), Some(nri::ContainerState::ContainerStopped));

    plugin.forget();
    stage.cri.stop_container(&ids[0], 5).await?;
    stage.cri.remove_container(&ids[0]).await?;
    stage.cri.end(&sandbox).await?;
    let rest = plugin.told.lock().unwrap().clone();
    let rest: Vec<_> = rest.iter().map(|told| (told.method.as_str(), told.id.as_str())).collect();
    let expected = [
        ("StopContainer", ids[0].as_str()),
        ("RemoveContainer", &ids[0]),
        ("StopPodSandbox", &sandbox),
        ("RemoveContainer", &ids[1]),
        ("RemovePodSandbox", &sandbox),
    ];
    ensure_eq!(rest, expected);
    stage.leaves_nothing().await
}

/// Plugins can change a memory limit without `dockbridge-runtime`. The other changes of this test need
/// `dockbridge-runtime`: without it, the error of CreateContainer names a changed field.
pub(crate) async fn that_change_containers(world: World) -> Outcome {
    let (stage, socket) = Stage::with_plugins(&world, "nri_changes").await?;
    let pod = stage.recipes.pod("p");
    let sandbox = stage.cri.run(&pod).await?;
    let plugin = Plugin::synchronised(&socket, ("10", "limits"), adjusts(of_memory())).await;
    let id = stage.up(&sandbox, &pod, &[stage.recipes.sleeper("limited")]).await?.remove(0);
    let v1 = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
    let line = format!("cat {v1} 2>/dev/null || cat /sys/fs/cgroup/memory.max");
    ensure_eq!(stage.engine.inside(&id, &line).await?, (48 << 20).to_string());
    drop(plugin);

    let all = adjusts(of_everything(&stage.folders.shared));
    let plugin = Plugin::synchronised(&socket, ("20", "all"), all).await;
    let main = stage.recipes.sleeper("main");
    match stage.cri.create(&sandbox, &main, &pod).await {
        Ok(id) if world.has_oci_runtime => {
            stage.cri.start(&id).await?;
            has_everything(&stage, &id).await?;
        }
        Err(refused) if !world.has_oci_runtime => {
            let text = refused.to_string();
            ensure!(text.contains("NRI plugin 20-all: ") && text.contains("env[A]"), "{text}");
            ensure_eq!(stage.engine.containers().await?.len(), 2, "the pause and one container");
        }
        other => ensure!(false, "{other:?}, the runtime: {}", world.has_oci_runtime),
    }
    drop(plugin);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// For each odd or impossible request of a plugin, the container starts or a call fails, as the case says, and a
/// created container can be removed. Without `dockbridge-runtime`, each of these requests makes a call fail.
pub(crate) async fn that_ask_for_the_impossible(world: World) -> Outcome {
    let (stage, socket) = Stage::with_plugins(&world, "nri_impossible").await?;
    let pod = stage.recipes.pod("p");
    let sandbox = stage.cri.run(&pod).await?;
    let mut wrong = Vec::new();
    for (at, (what, starts, adjust)) in impossible().into_iter().enumerate() {
        let plugin = Plugin::synchronised(&socket, ("10", "odd"), adjusts(adjust)).await;
        let config = stage.recipes.sleeper(&format!("odd-{at}"));
        let made = match stage.cri.create(&sandbox, &config, &pod).await {
            Ok(id) => {
                let started = stage.cri.start(&id).await;
                stage.cri.remove_container(&id).await?;
                started
            }
            Err(refused) => Err(refused),
        };
        if made.is_ok() != (starts && world.has_oci_runtime) {
            wrong.push(format!("{what}: {made:?}"));
        }
        drop(plugin);
    }
    ensure!(wrong.is_empty(), "{wrong:#?}");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// A case: its description, whether a container starts in spite of the adjustment, and the adjustment.
type Case = (&'static str, bool, nri::ContainerAdjustment);

fn text(text: &str) -> String {
    text.to_owned()
}

/// Odd and impossible adjustments.
fn impossible() -> Vec<Case> {
    let mount = |destination: &str, kind: &str, source: &str| nri::ContainerAdjustment {
        mounts: vec![nri::Mount {
            destination: text(destination),
            r#type: text(kind),
            source: text(source),
            options: if kind == "bind" { vec![text("rbind")] } else { Vec::new() },
        }],
        ..Default::default()
    };
    let mounts = (0..2000).flat_map(|at| mount(&format!("/m/{at}"), "tmpfs", "none").mounts);
    let many = nri::ContainerAdjustment { mounts: mounts.collect(), ..Default::default() };
    let env = |key: &str, value: &str| nri::ContainerAdjustment {
        env: vec![nri::KeyValue { key: text(key), value: text(value) }],
        ..Default::default()
    };
    let hook = |path: &str| {
        let hook = nri::Hook { path: text(path), ..Default::default() };
        let hooks = nri::Hooks { create_runtime: vec![hook], ..Default::default() };
        nri::ContainerAdjustment { hooks: Some(hooks), ..Default::default() }
    };
    let limit = |kind: &str, hard, soft| nri::ContainerAdjustment {
        rlimits: vec![nri::PosixRlimit { r#type: text(kind), hard, soft }],
        ..Default::default()
    };
    let annotation = |key: &str| nri::ContainerAdjustment {
        annotations: [(text(key), text("x"))].into(),
        ..Default::default()
    };
    let args = nri::ContainerAdjustment { args: vec![text("sh\0")], ..Default::default() };
    let all = [
        ("a mount over /", false, mount("/", "tmpfs", "none")),
        ("a mount over /proc", false, mount("/proc", "bind", "/etc")),
        ("a mount at a relative path", true, mount("a/b", "tmpfs", "none")),
        ("a mount outside", true, mount("/../../m", "tmpfs", "none")),
        ("a mount of nothing", false, mount("/m", "bind", "/nowhere")),
        ("2000 mounts", true, many),
        ("a variable with a NUL", false, env("A\0", "b\0")),
        ("a variable with a =", true, env("A=B", "c")),
        ("a variable without a name", false, env("", "c")),
        ("words with a NUL", false, args),
        ("a hook without a path", false, hook("")),
        ("a hook that is not there", false, hook("/nowhere")),
        ("a limit below itself", false, limit("RLIMIT_NOFILE", 10, 20)),
        ("a limit of nothing", false, limit("", 1, 1)),
        ("our mark", true, annotation("io.dockbridge.edits")),
        ("no mark", true, annotation("-io.dockbridge.edits")),
    ];
    all.into_iter().chain(impossible_for_the_kernel()).collect()
}

fn impossible_for_the_kernel() -> Vec<Case> {
    type Linux = nri::LinuxContainerAdjustment;
    let namespace = |kind: &str, path: &str| Linux {
        namespaces: vec![nri::LinuxNamespace { r#type: text(kind), path: text(path) }],
        ..Linux::default()
    };
    let group = Linux { cgroups_path: text("/../../../odd"), ..Linux::default() };
    let sysctl = [(text("../../etc/passwd"), text("x"))].into();
    let parameter = Linux { sysctl, ..Linux::default() };
    let action = nri::LinuxSeccomp { default_action: text("SCMP_ACT_ODD"), ..Default::default() };
    let filter = Linux { seccomp_policy: Some(action), ..Linux::default() };
    let odd = nri::LinuxDevice { path: text("/dev/x"), r#type: text("x"), ..Default::default() };
    let device = Linux { devices: vec![odd], ..Linux::default() };
    let all = [
        ("a group outside", true, group),
        ("a namespace that is a file", false, namespace("network", "/etc/passwd")),
        ("a namespace of no kind", false, namespace("odd", "")),
        ("a parameter that is a path", false, parameter),
        ("a filter of no action", false, filter),
        ("a device of no type", false, device),
    ];
    let adjust = |linux| nri::ContainerAdjustment { linux: Some(linux), ..Default::default() };
    all.into_iter().map(|(what, starts, linux)| (what, starts, adjust(linux))).collect()
}

pub(crate) fn of_memory() -> nri::ContainerAdjustment {
    let limit = Some(nri::OptionalInt64 { value: 48 << 20 });
    let memory = Some(nri::LinuxMemory { limit, ..Default::default() });
    let resources = Some(nri::LinuxResources { memory, ..Default::default() });
    let linux = nri::LinuxContainerAdjustment { resources, ..Default::default() };
    nri::ContainerAdjustment { linux: Some(linux), ..Default::default() }
}

fn of_everything(shared: &Path) -> nri::ContainerAdjustment {
    let hooked = format!("touch {}", shared.join("hooked").display());
    let hook = nri::Hook {
        path: "/bin/sh".to_owned(),
        args: ["sh", "-c", &hooked].map(str::to_owned).to_vec(),
        ..Default::default()
    };
    let mount = nri::Mount {
        destination: "/plugin".to_owned(),
        r#type: "bind".to_owned(),
        source: shared.display().to_string(),
        options: ["bind", "ro"].map(str::to_owned).to_vec(),
    };
    let sysctl = [("kernel.shm_rmid_forced".to_owned(), "1".to_owned())];
    let linux = nri::LinuxContainerAdjustment {
        sysctl: sysctl.into_iter().collect(),
        ..Default::default()
    };
    nri::ContainerAdjustment {
        mounts: vec![mount],
        env: vec![nri::KeyValue { key: "A".to_owned(), value: "b".to_owned() }],
        hooks: Some(nri::Hooks { create_runtime: vec![hook], ..Default::default() }),
        rlimits: vec![nri::PosixRlimit { r#type: "RLIMIT_NOFILE".to_owned(), hard: 99, soft: 77 }],
        linux: Some(linux),
        ..Default::default()
    }
}

async fn has_everything(stage: &Stage, id: &str) -> Outcome {
    ensure!(stage.folders.shared.join("hooked").exists(), "the hook was not run");
    fs::write(stage.folders.shared.join("word"), "the plugin's")?;
    for (line, said) in [
        ("tr '\\0' '\\n' </proc/1/environ | grep '^A='", "A=b"),
        ("cat /plugin/word", "the plugin's"),
        ("touch /plugin/more 2>&1 | grep -c 'Read-only'", "1"),
        ("grep -c 'open files *77 *99' /proc/1/limits", "1"),
        ("cat /proc/sys/kernel/shm_rmid_forced", "1"),
    ] {
        let found = stage.engine.inside(id, &format!("{line} || true")).await?;
        ensure_eq!(found, said, "{line}");
    }
    Ok(())
}

/// If a plugin had not accepted a container when dockbridge was killed, the restarted dockbridge asks plugins
/// again when CreateContainer is repeated, but only with `dockbridge-runtime`.
pub(crate) async fn that_were_asked_at_a_crash(world: World) -> Outcome {
    let (mut stage, socket) = Stage::with_plugins(&world, "nri_asked").await?;
    let (pod, main) = (stage.recipes.pod("p"), stage.recipes.sleeper("main"));
    let sandbox = stage.cri.run(&pod).await?;
    let silent = |told: &Told| match told.method.as_str() {
        "CreateContainer" => Reply::Silence,
        _ => Reply::Yes(Vec::new()),
    };
    let plugin = Plugin::synchronised(&socket, ("10", "silent"), silent).await;
    let (cri, wanted) = (stage.cri.clone(), (sandbox.clone(), main.clone(), pod.clone()));
    let making =
        tokio::spawn(async move { cri.create(&wanted.0, &wanted.1, &wanted.2).await.is_ok() });
    plugin.until("CreateContainer").await;
    stage.cri = stage.bridge.crash().await?;
    ensure!(!making.await?, "the call was answered");
    plugin.ended.await?;

    let plugin = Plugin::logger(&socket).await;
    let id = stage.cri.create(&sandbox, &main, &pod).await?;
    let is_asked = plugin.methods().contains(&"CreateContainer".to_owned());
    ensure_eq!(is_asked, world.has_oci_runtime);
    stage.cri.start(&id).await?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// A plugin program that a killed dockbridge had started ends, so that only the program of the restarted
/// dockbridge runs.
pub(crate) async fn that_outlive_nobody(world: World) -> Outcome {
    let root = world.root.join("tmp/nri_outlive");
    let (directory, mark) = (root.join("plugins"), root.join("pid"));
    fs::create_dir_all(&directory)?;
    let program = directory.join("10-stays");
    let loops = format!("#!/bin/sh\necho $$ >>{}\nwhile :; do sleep 1; done\n", mark.display());
    fs::write(&program, loops)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let (mut stage, _) = Stage::with_plugins(&world, "nri_outlive").await?;
    let mut looks = Looks::every(Duration::from_millis(10));
    let pid = loop {
        match fs::read_to_string(&mark).unwrap_or_default().lines().next() {
            Some(pid) => break pid.to_owned(),
            None => ensure!(looks.again().await, "the plugin is not started"),
        }
    };
    stage.cri = stage.bridge.crash().await?;
    let mut looks = Looks::every(Duration::from_millis(10));
    let command = Path::new("/proc").join(pid).join("cmdline");
    while fs::read(&command).is_ok_and(|line| !line.is_empty()) {
        ensure!(looks.again().await, "the plugin is still there");
    }
    fs::remove_file(&program)?;
    stage.leaves_nothing().await
}

/// If a plugin refuses a call, the call fails and can be repeated. A refused RunPodSandbox or CreateContainer
/// leaves no new container in the engine.
pub(crate) async fn that_refuse(world: World) -> Outcome {
    let (stage, socket) = Stage::with_plugins(&world, "nri_refuse").await?;
    let pod = stage.recipes.pod("p");
    let plugin = Plugin::guard(&socket, "RunPodSandbox").await;
    let refused = stage.cri.run(&pod).await.expect_err("the plugin refuses").to_string();
    ensure!(refused.contains("10-guard, RunPodSandbox: not today"), "{refused}");
    ensure!(stage.engine.containers().await?.is_empty(), "something is left");
    let sandbox = stage.cri.run(&pod).await?;
    drop(plugin);

    let plugin = Plugin::guard(&socket, "CreateContainer").await;
    let main = stage.recipes.sleeper("main");
    let refused = stage.cri.create(&sandbox, &main, &pod).await;
    let refused = refused.expect_err("the plugin refuses").to_string();
    ensure!(refused.contains("10-guard, CreateContainer: not today"), "{refused}");
    ensure_eq!(stage.engine.containers().await?, [sandbox.as_str()]);
    drop(plugin);

    let plugin = Plugin::guard(&socket, "StartContainer").await;
    let id = stage.cri.create(&sandbox, &main, &pod).await?;
    let refused = stage.cri.start(&id).await.expect_err("the plugin refuses").to_string();
    ensure!(refused.contains("10-guard, StartContainer: not today"), "{refused}");
    stage.cri.start(&id).await?;
    drop(plugin);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// If a plugin hangs, dockbridge disconnects it, and calls continue without it.
pub(crate) async fn that_hang(world: World) -> Outcome {
    let (stage, socket) =
        Stage::with_plugins_behind(&world, "nri_hang", &world.docker, "1s").await?;
    for method in ["RunPodSandbox", "CreateContainer", "StopContainer"] {
        let silent = move |told: &Told| match told.method == method {
            true => Reply::Silence,
            false => Reply::Yes(Vec::new()),
        };
        let plugin = Plugin::synchronised(&socket, ("10", "silent"), silent).await;
        let pod = stage.recipes.pod(&method.to_lowercase());
        let sandbox = stage.cri.run(&pod).await?;
        stage.up(&sandbox, &pod, &[stage.recipes.sleeper("main")]).await?;
        stage.cri.end(&sandbox).await?;
        plugin.ended.await?;
    }
    let mut looks = Looks::every(Duration::from_millis(50));
    let told =
        |what| Ok::<_, Failure>(fs::read_to_string(stage.bridge.log())?.matches(what).count());
    while told("NRI plugin disconnected after a failure")? < 3 {
        ensure!(looks.again().await, "the log does not tell that plugins hang");
    }
    ensure_eq!(told("did not complete")?, 3, "one line for each plugin that hung");
    // When dockbridge starts, it connects to its own NRI socket to find out whether another program listens.
    ensure_eq!(told("cannot set up an NRI plugin")?, 0, "there was no such plugin");
    stage.leaves_nothing().await
}

/// The calls that an NRI plugin gets when a container is created and started.
const MADE: [&str; 5] = [
    "CreateContainer",
    "ValidateContainerAdjustment",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
];
