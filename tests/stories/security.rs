//! Tests the confinement of a container's process: the host's `/proc` shows the seccomp filters, capabilities,
//! privileges and mounts of the process.

use std::{fs, path::PathBuf, time::Duration};

use dockbridge::{pause::archive, wire::cri};
use tonic::Code;

use crate::machine::left_out;
use crate::skips::{Lack, skip};
use crate::support::{
    cri::Refused,
    failure::{Outcome, ensure, ensure_eq},
    patience::Looks,
    stage::Stage,
    world::World,
};
use cri::security_profile::ProfileType;

/// Tests every kind of seccomp profile, and invalid profiles.
pub(crate) async fn by_seccomp(world: World) -> Outcome {
    let stage = Stage::cni(&world, "by_seccomp").await?;
    let file = stage.folders.shared.join("profile.json");
    let text = r#"{ "defaultAction": "SCMP_ACT_ALLOW", "a key of the future": 1,
        "syscalls": [{"names": ["chmod", "fchmodat", "fchmodat2"], "action": "SCMP_ACT_ERRNO"}] }"#;
    fs::write(&file, text)?;
    let local = profile(ProfileType::Localhost, &file.display().to_string());
    let mut pod = stage.recipes.pod("filtered");
    of_pod(&mut pod).seccomp = Some(profile(ProfileType::RuntimeDefault, ""));
    let sandbox = stage.cri.run(&pod).await?;
    ensure_eq!(filters_of(&stage, &sandbox).await?, filters_of_pause(&world));
    let mut strict = stage.recipes.pod("filtered-as-asked");
    of_pod(&mut strict).seccomp = Some(local.clone());
    let as_asked = stage.cri.run(&strict).await?;
    ensure_eq!(filters_of(&stage, &as_asked).await?, "2", "its own beside the one asked for");
    for (name, seccomp, mode) in [
        ("absent", None, "0"),
        ("unconfined", Some(profile(ProfileType::Unconfined, "")), "0"),
        ("default", Some(profile(ProfileType::RuntimeDefault, "")), "2"),
        ("local", Some(local), "2"),
    ] {
        let mut container = stage.recipes.sleeper(name);
        of(&mut container).seccomp = seccomp;
        let ids = stage.up(&sandbox, &pod, &[container]).await?;
        ensure_eq!(status_of(&stage, &ids[0], "Seccomp").await?, mode, "{name}");
        let chmod = stage.engine.inside(&ids[0], "touch /tmp/x; chmod 600 /tmp/x").await;
        ensure_eq!(chmod.is_ok(), name != "local", "{name}: {chmod:?}");
        if name == "local" {
            let options =
                ["inspect", "-f", "{{range .HostConfig.SecurityOpt}}{{.}}{{end}}", &ids[0]];
            ensure!(stage.engine.docker(&options).await?.contains(text), "the text was changed");
        }
    }
    let many = "x".repeat(2 << 20);
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("no-object", b"[]"),
        ("no-default", b"{}"),
        ("no-action", br#"{"defaultAction":"SCMP_ACT_PERHAPS"}"#),
        ("no-text", b"{\"defaultAction\":\"\xff\"}"),
        ("no-end", many.as_bytes()),
    ] {
        fs::write(&file, bytes)?;
        let mut container = stage.recipes.sleeper(name);
        of(&mut container).seccomp =
            Some(profile(ProfileType::Localhost, &file.display().to_string()));
        refuses(&stage, (&sandbox, &pod), &container, (Code::InvalidArgument, "profile")).await?;
    }
    fs::remove_file(&file)?;
    for path in [file.display().to_string(), "profile.json".to_owned()] {
        let mut container = stage.recipes.sleeper("nowhere");
        of(&mut container).seccomp = Some(profile(ProfileType::Localhost, &path));
        refuses(&stage, (&sandbox, &pod), &container, (Code::InvalidArgument, "profile")).await?;
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Users who may run pods can make the node pull an image with the name of the built-in pause image. Pods still get the
/// built-in pause image.
pub(crate) async fn of_the_pause_under_a_taken_name(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "of_the_pause_under_a_taken_name").await?;
    let pod = stage.recipes.pod("first");
    let sandbox = stage.cri.run(&pod).await?;
    let own = image_of(&stage, &sandbox).await?;
    stage.engine.docker(&["tag", &world.image, archive::reference()]).await?;
    let second = stage.cri.run(&stage.recipes.pod("second")).await?;
    ensure_eq!(image_of(&stage, &second).await?, own);
    stage.cri = stage.bridge.restart().await?;
    let third = stage.cri.run(&stage.recipes.pod("third")).await?;
    ensure_eq!(image_of(&stage, &third).await?, own);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

async fn image_of(stage: &Stage, sandbox: &str) -> Outcome<String> {
    stage.engine.docker(&["inspect", "-f", "{{.Image}}", sandbox]).await
}

/// The number of seccomp filters of a pause container with the default profile: the filter that the pause program
/// installs, and without `dockbridge-runtime` also the engine's filter.
const fn filters_of_pause(world: &World) -> &'static str {
    if world.has_oci_runtime { "1" } else { "2" }
}

/// The number of seccomp filters of a container's process when the process sleeps. The pause program installs
/// its own filter after its start.
async fn filters_of(stage: &Stage, id: &str) -> Outcome<String> {
    let mut looks = Looks::every(Duration::from_millis(10));
    loop {
        let status = of_process(stage, id, "status").await?;
        if line_of(&status, "State").starts_with('S') {
            return Ok(line_of(&status, "Seccomp_filters"));
        }
        ensure!(looks.again().await, "the process does not sleep: {status}");
    }
}

/// The seccomp profile `RuntimeDefault` is the engine's built-in one, even if dockerd's own default is `unconfined`.
pub(crate) async fn with_an_unconfined_daemon(world: World) -> Outcome {
    let engine = crate::support::engine::Engine::of(world.clone());
    if world.docker_major < 23 {
        return left_out(Lack::YoungEngine);
    }
    engine.control(&["restart", "--seccomp-profile", "unconfined"]).await?;
    let stage = Stage::cni(&world, "confines_nobody").await?;
    let pod = stage.recipes.pod("confined");
    let sandbox = stage.cri.run(&pod).await?;
    ensure_eq!(filters_of(&stage, &sandbox).await?, filters_of_pause(&world));
    let mut container = stage.recipes.sleeper("main");
    of(&mut container).seccomp = Some(profile(ProfileType::RuntimeDefault, ""));
    let ids = stage.up(&sandbox, &pod, &[container]).await?;
    ensure_eq!(status_of(&stage, &ids[0], "Seccomp").await?, "2");
    stage.cri.clear().await?;
    engine.control(&["restart"]).await?;
    stage.leaves_nothing().await
}

/// Tests capabilities: ALL in the list of added or of dropped ones, and names in both lists.
pub(crate) async fn by_capabilities(world: World) -> Outcome {
    const CHOWN: u64 = 1;
    const KILL: u64 = 1 << 5;
    const SYS_RESOURCE: u64 = 1 << 24;
    const TIME: u64 = 1 << 25;
    let stage = Stage::cni(&world, "by_capabilities").await?;
    let pod = stage.recipes.pod("able");
    let sandbox = stage.cri.run(&pod).await?;
    let pid = tokio::process::Command::new(&world.control).arg("pid").output().await?;
    let daemon = fs::read_to_string(
        PathBuf::from("/proc").join(String::from_utf8_lossy(&pid.stdout).trim()).join("status"),
    )?;
    let all = u64::from_str_radix(&line_of(&daemon, "CapBnd"), 16)?;
    // Docker 20.10 knows only the first 38 capabilities.
    let known = if world.docker_major < 23 { (1 << 38) - 1 } else { u64::MAX };
    let usual = 0xa804_25fb;
    for (name, add, drop, wanted) in [
        ("usual", &[][..], &[][..], usual),
        ("more", &["CAP_SYS_TIME"], &["chown"], (usual | TIME) & !CHOWN),
        ("both", &["SYS_TIME", "KILL"], &["KILL"], (usual | TIME) & !KILL),
        ("few", &["CHOWN", "KILL"], &["ALL", "KILL"], CHOWN),
        ("none", &["ALL"], &["ALL"], 0),
        ("all", &["ALL"], &["CHOWN"], all & !CHOWN),
    ] {
        if name == "all" && world.docker_major < 23 && all & SYS_RESOURCE == 0 {
            skip(Lack::SysResource);
            continue;
        }
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        let mut container = stage.recipes.sleeper(name);
        of(&mut container).capabilities = Some(cri::Capability {
            add_capabilities: words(add),
            drop_capabilities: words(drop),
            ..Default::default()
        });
        let ids = stage.up(&sandbox, &pod, &[container]).await?;
        let held = status_of(&stage, &ids[0], "CapEff").await?;
        ensure_eq!(held, format!("{:016x}", wanted & all & known), "{name}");
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Tests privilege escalation, a read-only root file system, and masked paths. The CRI's list of masked paths
/// replaces Docker's list.
pub(crate) async fn by_privileges(world: World) -> Outcome {
    let stage = Stage::cni(&world, "by_privileges").await?;
    let pod = stage.recipes.pod("plain");
    let sandbox = stage.cri.run(&pod).await?;
    let mut tight = stage.recipes.sleeper("tight");
    let security = of(&mut tight);
    security.no_new_privs = true;
    security.readonly_rootfs = true;
    security.masked_paths = vec!["/proc/filesystems".to_owned(), "/proc/version".to_owned()];
    security.readonly_paths = vec!["/proc/sys".to_owned()];
    // Some Helm charts set SELinux options even for nodes without SELinux, where the options have no effect.
    security.selinux_options =
        Some(cri::SeLinuxOption { level: "s0:c1,c2".to_owned(), ..Default::default() });
    let loose = stage.recipes.sleeper("loose");
    let ids = stage.up(&sandbox, &pod, &[tight, loose]).await?;
    for (id, new, root, hidden) in [
        (&ids[0], "1", "ro", vec!["/proc/filesystems", "/proc/sys", "/proc/version"]),
        (&ids[1], "0", "rw", vec![]),
    ] {
        ensure_eq!(status_of(&stage, id, "NoNewPrivs").await?, new);
        let table = of_process(&stage, id, "mountinfo").await?;
        let mounts: Vec<(&str, &str)> = table.lines().filter_map(point_and_options).collect();
        for point in ["/", "/etc/resolv.conf", "/etc/hostname", "/etc/hosts"] {
            let options = mounts.iter().find(|(at, _)| *at == point).map(|row| row.1);
            let begins = options.unwrap_or_default().split(',').next();
            ensure_eq!(begins, Some(root), "{point}");
        }
        let mut over: Vec<&str> =
            mounts.iter().map(|row| row.0).filter(|point| point.starts_with("/proc/")).collect();
        over.sort_unstable();
        ensure_eq!(over, hidden);
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Privileged containers have no seccomp filter, even if they request a seccomp profile.
pub(crate) async fn of_the_privileged(world: World) -> Outcome {
    let stage = Stage::cni(&world, "privileged").await?;
    let mut pod = stage.recipes.pod("mighty");
    of_pod(&mut pod).privileged = true;
    let sandbox = match stage.cri.run(&pod).await {
        Err(refused) if refused.message.contains("unable to apply caps") => {
            skip(Lack::SysResource);
            return stage.leaves_nothing().await;
        }
        answer => answer?,
    };
    let mut container = stage.recipes.sleeper("main");
    of(&mut container).privileged = true;
    of(&mut container).seccomp = Some(profile(ProfileType::Localhost, "/not/even/there.json"));
    let ids = stage.up(&sandbox, &pod, &[container.clone()]).await?;
    // The pause container of a privileged pod still has its own filter.
    for (id, filters) in [(&sandbox, "1"), (&ids[0], "0")] {
        ensure_eq!(filters_of(&stage, id).await?, filters);
    }
    // `kubectl debug --profile=sysadmin` adds a privileged container to a running pod without one.
    let mut plain = stage.recipes.pod("plain");
    let sandbox = stage.cri.run(&plain).await?;
    of_pod(&mut plain).privileged = true;
    let ids = stage.up(&sandbox, &plain, &[container]).await?;
    ensure_eq!(filters_of(&stage, &ids[0]).await?, "0");
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// dockbridge refuses invalid requests and, without `dockbridge-runtime`, requests that need the runtime. The error
/// names the field or the wrong value.
pub(crate) async fn refused(world: World) -> Outcome {
    let stage = Stage::cni(&world, "refused").await?;
    let pod = stage.recipes.pod("pod");
    let sandbox = stage.cri.run(&pod).await?;
    let range = cri::IdMapping { host_id: 100_000, container_id: 0, length: 65_536 };
    let mode = cri::NamespaceMode::Pod.into();
    let users = cri::UserNamespace { mode, uids: vec![range], gids: vec![range] };
    type Change = Box<dyn Fn(&mut cri::LinuxContainerSecurityContext) + Send + Sync>;
    let mapped = users.clone();
    let capabilities = |change: fn(&mut cri::Capability)| -> Change {
        Box::new(move |c| change(c.capabilities.get_or_insert_default()))
    };
    let apparmor = fs::read_to_string("/sys/module/apparmor/parameters/enabled")
        .is_ok_and(|text| text.starts_with('Y'));
    let no_profile = if apparmor { Code::InvalidArgument } else { Code::FailedPrecondition };
    let mut cases: Vec<(Code, &str, Change)> = vec![
        (
            Code::InvalidArgument,
            "namespace_options.userns_options: must be the same as the pod's",
            Box::new(move |c| {
                c.namespace_options.get_or_insert_default().userns_options = Some(mapped.clone());
            }),
        ),
        (
            Code::InvalidArgument,
            "CAP_TO_FLY",
            capabilities(|c| c.add_capabilities = vec!["to_fly".to_owned()]),
        ),
        (
            no_profile,
            "not-loaded",
            Box::new(|c| {
                c.apparmor = Some(profile(ProfileType::Localhost, "localhost/not-loaded"));
            }),
        ),
    ];
    if !world.has_oci_runtime {
        cases.push((
            Code::Unimplemented,
            "capabilities.add_ambient_capabilities",
            capabilities(|c| c.add_ambient_capabilities = vec!["CHOWN".to_owned()]),
        ));
    }
    for (code, said, change) in cases {
        let mut container = stage.recipes.sleeper("main");
        change(of(&mut container));
        refuses(&stage, (&sandbox, &pod), &container, (code, said)).await?;
    }
    if !world.has_oci_runtime {
        let mut other = stage.recipes.pod("mapped");
        of_pod(&mut other).namespace_options.get_or_insert_default().userns_options = Some(users);
        let answer = stage.cri.run(&other).await;
        said(answer, (Code::Unimplemented, "userns_options.mode"))?;
    }
    ensure_eq!(stage.engine.containers().await?, [sandbox]);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Anyone can set labels on an image. So dockbridge does not list a container that another program started from
/// an image with the labels of dockbridge's own containers.
pub(crate) async fn by_an_impostor(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "impostor").await?;
    let pod = stage.recipes.pod("honest");
    let sandbox = stage.cri.run(&pod).await?;
    let ids = stage.up(&sandbox, &pod, &[stage.recipes.sleeper("model")]).await?;
    let planted = plant(&stage, &ids[0]).await?;
    let stranger = stage.engine.docker(&["run", "-d", &planted, "sleep", "600"]).await?;

    let mut honest = stage.recipes.sleeper("main");
    honest.image = Some(cri::ImageSpec { image: planted.clone(), ..Default::default() });
    let ours = stage.up(&sandbox, &pod, std::slice::from_ref(&honest)).await?;
    let status = stage.cri.container(&ours[0]).await?;
    ensure_eq!(status.labels, honest.labels);
    ensure_eq!(status.annotations, honest.annotations);
    let listed = stage.cri.containers().await?;
    ensure!(listed.iter().all(|one| one.id != stranger), "a stranger is listed as a pod's");
    let item = listed.into_iter().find(|one| one.id == ours[0]).unwrap_or_default();
    ensure_eq!((item.labels, item.pod_sandbox_id), (honest.labels, sandbox.clone()));
    ensure_eq!(stage.cri.sandboxes().await?.len(), 1_usize);

    stage.engine.docker(&["rm", "-f", &stranger]).await?;
    under_our_names(&mut stage, (&sandbox, &ids[0]), &planted).await?;
    stage.cri.remove_image(&planted).await?;
    stage.leaves_nothing().await
}

/// Starts containers with `docker run` from committed images, with the names of a removed container and pod. The copy
/// of the container also joins the pod's network and IPC namespaces. dockbridge neither lists nor removes the copies.
async fn under_our_names(
    stage: &mut Stage,
    (sandbox, container): (&str, &str),
    planted: &str,
) -> Outcome {
    let paused = "dockbridge.test/impostor-pause:1";
    stage.engine.docker(&["commit", sandbox, paused]).await?;
    let named = ["inspect", "-f", "{{.Name}}", sandbox, container];
    let named = stage.engine.docker(&named).await?;
    let names: Vec<&str> = named.lines().map(|name| name.trim_start_matches('/')).collect();
    stage.cri.remove_container(container).await?;
    let joined = format!("container:{sandbox}");
    let words = ["run", "-d", "--name", names[1], "--network", &joined, "--ipc", &joined];
    let words = [&words[..], &[planted, "sleep", "600"]].concat();
    let copy = stage.engine.docker(&words).await?;
    let shown = stage.cri.containers().await?;
    ensure!(shown.iter().all(|one| one.id != copy), "a copy is listed as a pod's: {shown:?}");
    stage.cri.clear().await?;
    let words = ["run", "-d", "--name", names[0], "--network", "none", paused];
    let pause = stage.engine.docker(&words).await?;
    // After this restart, dockbridge would adopt a container without a checkpoint file if it took the container
    // for a pod.
    stage.cri = stage.bridge.restart().await?;
    let mut looks = Looks::every(Duration::from_millis(50));
    while !(stage.cri.sandboxes().await?.is_empty() && stage.cri.containers().await?.is_empty()) {
        ensure!(looks.again().await, "a copy is still listed");
    }
    stage.cri.remove(&pause).await?;
    stage.cri.remove_container(&copy).await?;
    let running = ["inspect", "-f", "{{.State.Running}}", &pause, &copy];
    ensure_eq!(stage.engine.docker(&running).await?, "true\ntrue");
    stage.engine.docker(&["rm", "-f", &pause, &copy]).await?;
    Ok(stage.cri.remove_image(paused).await?)
}

/// Commits an image with all labels of a dockbridge container, which `docker commit` copies, and with three more
/// labels.
async fn plant(stage: &Stage, model: &str) -> Outcome<String> {
    let image = "dockbridge.test/impostor:1";
    let extra =
        ["annotation.planted=yes", "planted=yes", "io.kubernetes.pod.terminationGracePeriod=1"];
    let mut words = vec!["commit".to_owned()];
    for label in extra {
        words.extend(["-c".to_owned(), format!("LABEL {label}")]);
    }
    words.extend([model.to_owned(), image.to_owned()]);
    stage.engine.docker(&words.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let labels = ["image", "inspect", "-f", "{{json .Config.Labels}}", image];
    let labels = stage.engine.docker(&labels).await?;
    ensure!(labels.contains("io.dockbridge.container"), "the image has only {labels}");
    Ok(image.to_owned())
}

/// Checks that dockbridge refuses a create with this code and text, and that the engine then has the same
/// containers as before.
pub(crate) async fn refuses(
    stage: &Stage,
    (sandbox, pod): (&str, &cri::PodSandboxConfig),
    container: &cri::ContainerConfig,
    wanted: (Code, &str),
) -> Outcome {
    let before = stage.engine.containers().await?;
    said(stage.cri.create(sandbox, container, pod).await, wanted)?;
    ensure_eq!(stage.engine.containers().await?, before);
    Ok(())
}

/// Checks that the call failed with this code and a message that contains this text.
pub(crate) fn said(answer: Result<String, Refused>, (code, words): (Code, &str)) -> Outcome {
    let Err(refused) = answer else {
        crate::support::failure::fail!("nothing was refused, where {words:?} should be")
    };
    ensure_eq!(refused.code, code, "{}", refused.message);
    ensure!(refused.message.contains(words), "{words:?} is not in {:?}", refused.message);
    Ok(())
}

fn profile(kind: ProfileType, name: &str) -> cri::SecurityProfile {
    cri::SecurityProfile { profile_type: kind.into(), localhost_ref: name.to_owned() }
}

/// The security context in a container's request.
pub(crate) fn of(container: &mut cri::ContainerConfig) -> &mut cri::LinuxContainerSecurityContext {
    container.linux.get_or_insert_default().security_context.get_or_insert_default()
}

fn of_pod(pod: &mut cri::PodSandboxConfig) -> &mut cri::LinuxSandboxSecurityContext {
    pod.linux.get_or_insert_default().security_context.get_or_insert_default()
}

/// Reads a file of the container's main process in `/proc`.
pub(crate) async fn of_process(stage: &Stage, id: &str, file: &str) -> Outcome<String> {
    let pid = stage.engine.docker(&["inspect", "-f", "{{.State.Pid}}", id]).await?;
    Ok(fs::read_to_string(PathBuf::from("/proc").join(pid).join(file))?)
}

async fn status_of(stage: &Stage, id: &str, key: &str) -> Outcome<String> {
    Ok(line_of(&of_process(stage, id, "status").await?, key))
}

fn line_of(status: &str, key: &str) -> String {
    let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    value.unwrap_or_default().trim().to_owned()
}

/// The mount point and the options in a line of a mount table.
pub(crate) fn point_and_options(line: &str) -> Option<(&str, &str)> {
    let mut fields = line.split(' ').skip(4);
    Some((fields.next()?, fields.next()?))
}
