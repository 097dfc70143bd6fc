//! Tests pods with user namespaces, which need `dockbridge-runtime`.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::PathBuf,
    time::Duration,
};

use dockbridge::{host::netns, wire::cri};
use tonic::Code;

use crate::{
    restarts::{until_not_ready, until_ready},
    skips::{Lack, skip},
    support::{
        failure::{Outcome, ensure, ensure_eq, fail},
        http,
        patience::Looks,
        pod,
        remote::{SPDY, Session, Wish},
        stage::Stage,
        world::World,
    },
};

/// On the host, the root of a pod with a user namespace is an unprivileged user. Inside the pod, this user is root for
/// the pod's files, volumes and image.
pub(crate) async fn of_a_pod(world: World) -> Outcome {
    let Some(stage) = stage(&world, "mapped").await? else { return Ok(()) };
    let (cri, engine) = (&stage.cri, &stage.engine);
    let image = image_of_many_users(&stage).await?;
    let volume = volume_of_many_users(&stage)?;
    let pod = mapped_pod(&stage, "pod");
    let sandbox = cri.run(&pod).await?;
    let mut main = mapped(stage.recipes.web("main", 80));
    main.image = Some(cri::ImageSpec { image: image.clone(), ..Default::default() });
    let of_image = cri::ImageSpec { image: image.clone(), ..Default::default() };
    let image_volume = cri::Mount {
        container_path: "/image".to_owned(),
        image: Some(of_image),
        readonly: true,
        uid_mappings: ids(),
        gid_mappings: ids(),
        ..Default::default()
    };
    let mut part = image_volume.clone();
    part.container_path = "/part".to_owned();
    part.image_sub_path = "files".to_owned();
    // Not every client sends the mappings that kubelet sends.
    let mut unmapped = part.clone();
    unmapped.container_path = "/unmapped".to_owned();
    (unmapped.uid_mappings, unmapped.gid_mappings) = (Vec::new(), Vec::new());
    main.mounts = vec![volume.clone(), image_volume, part, unmapped];
    let mut other = mapped(stage.recipes.sleeper("other"));
    other.mounts = vec![volume.clone()];
    let run_as = &mut other.linux.get_or_insert_default().security_context;
    run_as.get_or_insert_default().run_as_user = Some(cri::Int64Value { value: 33 });
    let ids = stage.up(&sandbox, &pod, &[main, other]).await?;

    for (line, said) in [
        ("id -u", "0"),
        ("cat /proc/self/uid_map | tr -s ' '", "0 200000 65536"),
        ("stat -c '%u:%g %a' /suid /of-www /bin", "0:0 4755\n33:33 640\n0:0 755"),
        ("stat -c '%u:%g %a' /image/suid /image/of-www", "0:0 4755\n33:33 640"),
        ("stat -c '%u:%g' /part /part/of-www", "0:0\n33:33"),
        ("stat -c '%u:%g' /unmapped /unmapped/of-www", "0:0\n33:33"),
        ("stat -c %u /etc/hosts /etc/resolv.conf /etc/hostname | sort -u", "0"),
        ("cat /etc/hostname /volume/of-root", "pod\nroot's"),
        ("stat -c '%u:%g' /volume/of-root /volume/of-www /volume/of-user", "0:0\n33:33\n1000:1000"),
        (
            "echo new >/volume/new && echo new >/new && echo new >/dev/shm/new && echo wrote",
            "wrote",
        ),
        ("chown 1000:1000 /volume/new && stat -c %u /volume/new", "1000"),
        // Ids outside the pod's range are invalid.
        ("chown 70000 /volume/new 2>&1 | grep -c 'Invalid argument'", "1"),
        ("mknod /dev/of-host b 254 0 2>&1 | grep -c 'not permitted'", "1"),
        ("cat /volume/of-user", "user's"),
    ] {
        ensure_eq!(engine.inside(&ids[0], line).await?, said, "{line}");
    }
    let denied = engine.inside(&ids[1], "id -u; cat /volume/of-root 2>&1 || cat /volume/of-www");
    ensure!(denied.await?.ends_with("www's"), "a user of the pod read what is root's");

    let new = fs::metadata(PathBuf::from(&volume.host_path).join("new"))?;
    ensure_eq!((new.uid(), new.gid()), (1000, 1000), "the owner on the host's disk");
    let pid = engine.docker(&["inspect", "-f", "{{.State.Pid}}", &ids[0]]).await?;
    ensure_eq!(fs::metadata(format!("/proc/{pid}"))?.uid(), FIRST, "who the host sees");
    ensure!(engine.docker(&["diff", &ids[0]]).await?.contains("A /new"), "the diff has no /new");

    in_every_way(&stage, (&sandbox, &ids[0])).await?;
    refused(&stage, (&sandbox, &pod)).await?;
    cri.clear().await?;
    engine.docker(&["rmi", "-f", &image]).await?;
    stage.leaves_nothing().await
}

async fn in_every_way(stage: &Stage, (sandbox, id): (&str, &str)) -> Outcome {
    let cri = &stage.cri;
    let told = cri.exec_sync(id, &["id", "-u"], 0).await?;
    ensure_eq!(String::from_utf8_lossy(&told.stdout).trim(), "0");
    let mut session = Session::exec(cri, SPDY, id, &["id", "-u"], Wish::Output).await?;
    ensure_eq!(session.collect().await?.stdout.trim(), "0");
    let status = cri.sandbox(sandbox).await?;
    let address = status.network.unwrap_or_default().ip;
    let page = http::get(&format!("{address}:80")).await?;
    ensure!(page.contains("dockbridge world"), "the pod says {page:?}");
    let mut looks = Looks::every(Duration::from_millis(200));
    while looks.again().await {
        let stats = cri.stats(id).await?;
        ensure!(stats.memory.is_some_and(|memory| memory.usage_bytes.is_some()), "no memory");
        if stats.writable_layer.is_some_and(|layer| layer.used_bytes.is_some()) {
            return Ok(());
        }
    }
    fail!("the layer was never measured")
}

/// Checks that dockbridge refuses a container without the user namespace of its pod, and a pod that has a user
/// namespace and the host's IPC namespace.
async fn refused(stage: &Stage, (sandbox, pod): (&str, &cri::PodSandboxConfig)) -> Outcome {
    let host = stage.recipes.sleeper("host");
    let answer = stage.cri.create(sandbox, &host, pod).await;
    ensure_eq!(answer.err().map(|refused| refused.code), Some(Code::InvalidArgument));
    let mut node = mapped_pod(stage, "node");
    pod::namespaces_of(&mut node).ipc = cri::NamespaceMode::Node.into();
    let answer = stage.cri.run(&node).await;
    ensure_eq!(answer.err().map(|refused| refused.code), Some(Code::InvalidArgument));
    Ok(())
}

/// Tests a pod with the host's network and a user namespace, as kubelet requests it with the feature gate
/// `UserNamespacesHostNetworkSupport`.
pub(crate) async fn with_the_hosts_network(world: World) -> Outcome {
    let Some(mut stage) = stage(&world, "mapped_host").await? else { return Ok(()) };
    let features = stage.cri.status(false).await?.features;
    ensure!(features.is_some_and(|it| it.user_namespaces_host_network), "{features:?}");
    let mut pod = mapped_pod(&stage, "pod");
    pod::namespaces_of(&mut pod).network = cri::NamespaceMode::Node.into();
    let sandbox = stage.cri.run(&pod).await?;
    let sleeper = |name: &str| {
        let mut config = mapped(stage.recipes.sleeper(name));
        pod::namespaces_in(&mut config).network = cri::NamespaceMode::Node.into();
        config
    };
    let (mut main, second) = (sleeper("main"), sleeper("second"));
    main.mounts = vec![volume_of_many_users(&stage)?];
    let id = stage.up(&sandbox, &pod, &[main]).await?.remove(0);
    let host = fs::read_link("/proc/self/ns/net")?.display().to_string();
    for (line, said) in [
        ("cat /proc/self/uid_map | tr -s ' '", "0 200000 65536"),
        ("readlink /proc/self/ns/net", host.as_str()),
        ("stat -c '%u:%g' /bin /volume/of-www", "0:0\n33:33"),
        ("test -d /sys/class/net/docker0 && echo there", "there"),
        ("mkdir /sys/new 2>&1 | grep -c Read-only", "1"),
        ("ip link add new type dummy 2>&1 | grep -c 'not permitted'", "1"),
        ("cat /etc/hosts | grep -c localhost", "1"),
    ] {
        ensure_eq!(stage.engine.inside(&id, line).await?, said, "{line}");
    }
    ensure_eq!(stage.cri.exec_sync(&id, &["id", "-u"], 0).await?.stdout, b"0\n");
    stage.bridge.kill().await?;
    let pin = stage.folders.run.join("userns").join(&sandbox);
    netns::unpin(&pin)?;
    stage.bridge.spawn().await?;
    stage.cri = stage.bridge.cri().await?;
    let mut looks = Looks::every(Duration::from_millis(50));
    while !netns::is_pinned(&pin) {
        ensure!(looks.again().await, "the user namespace was not pinned again");
    }
    let second = stage.up(&sandbox, &pod, &[second]).await?.remove(0);
    ensure_eq!(stage.engine.inside(&second, "readlink /proc/self/ns/net").await?, host);
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// The image contains device files, which belong to the pod's root but cannot be opened, not even in a privileged
/// container. The same holds for the copy that the engine makes in a volume that the image declares. The pod can write
/// to this volume.
pub(crate) async fn without_devices_of_an_image(world: World) -> Outcome {
    let Some(stage) = stage(&world, "mapped_devices").await? else { return Ok(()) };
    let (cri, engine) = (&stage.cri, &stage.engine);
    let line = "mkdir /data && for at in /node /data/node; do mknod -m 666 $at c 1 3; done";
    let volumes = ["VOLUME /data", "VOLUME /volume/"];
    let image = committed(&stage, "nodes", line, &volumes).await?;
    let mut pod = mapped_pod(&stage, "pod");
    let security = &mut pod.linux.get_or_insert_default().security_context;
    security.get_or_insert_default().privileged = true;
    let sandbox = cri.run(&pod).await?;
    let mut main = mapped(stage.recipes.sleeper("main"));
    main.image = Some(cri::ImageSpec { image: image.clone(), ..Default::default() });
    let of_image = cri::ImageSpec { image: image.clone(), ..Default::default() };
    main.mounts = vec![
        cri::Mount {
            container_path: "/image".to_owned(),
            image: Some(of_image),
            readonly: true,
            uid_mappings: ids(),
            gid_mappings: ids(),
            ..Default::default()
        },
        volume_of_many_users(&stage)?,
    ];
    let security = &mut main.linux.get_or_insert_default().security_context;
    security.get_or_insert_default().privileged = true;
    let ids = stage.up(&sandbox, &pod, &[main]).await?;
    for (line, said) in [
        ("cat /proc/self/uid_map | tr -s ' '", "0 200000 65536"),
        ("stat -c '%u:%g %t:%T' /node /data/node /image/node | uniq", "0:0 1:3"),
        ("mkdir /again && mount --bind / /again && ls /again/node", "/again/node"),
        ("echo new >/data/new && stat -c %u /data /data/new | uniq", "0"),
        ("cat /volume/of-root", "root's"),
    ] {
        ensure_eq!(engine.inside(&ids[0], line).await?, said, "{line}");
    }
    for node in ["/node", "/data/node", "/image/node", "/again/node"] {
        let line = format!("(echo >{node}) 2>&1 | grep -c 'Permission denied'");
        ensure_eq!(engine.inside(&ids[0], &line).await?, "1", "{node}");
        let line = format!("mount -o remount,bind,dev $(dirname {node}) 2>&1; echo >{node}");
        ensure!(engine.inside(&ids[0], &line).await.is_err(), "{node} was opened");
    }
    cri.clear().await?;
    engine.docker(&["rmi", "-f", &image]).await?;
    stage.leaves_nothing().await
}

/// A pod keeps running and accepts new containers after kills of dockbridge and the engine. Docker can stop and start
/// one of its containers. After the pod's removal, nothing is left.
pub(crate) async fn whatever_is_killed(world: World) -> Outcome {
    let Some(mut stage) = stage(&world, "mapped_kills").await? else { return Ok(()) };
    stage.engine.control(&["restart", LIVE_RESTORE]).await?;
    until_ready(&stage.cri).await?;
    let pod = mapped_pod(&stage, "pod");
    let sandbox = stage.cri.run(&pod).await?;
    let mut made = stage.up(&sandbox, &pod, &[mapped(stage.recipes.sleeper("first"))]).await?;

    stage.cri = stage.bridge.crash().await?;
    ensure_eq!(stage.cri.sandbox(&sandbox).await?.state(), cri::PodSandboxState::SandboxReady);
    made.extend(stage.up(&sandbox, &pod, &[mapped(stage.recipes.sleeper("second"))]).await?);

    stage.engine.control(&["kill"]).await?;
    stage.engine.control(&["start", LIVE_RESTORE]).await?;
    until_ready(&stage.cri).await?;
    made.extend(stage.up(&sandbox, &pod, &[mapped(stage.recipes.sleeper("third"))]).await?);
    for id in &made {
        ensure_eq!(stage.engine.inside(id, "id -u; readlink /proc/1/ns/user").await?, {
            let pid = stage.engine.docker(&["inspect", "-f", "{{.State.Pid}}", &sandbox]).await?;
            format!("0\n{}", fs::read_link(format!("/proc/{pid}/ns/user"))?.display())
        });
    }

    stage.engine.docker(&["stop", "-t", "1", &made[0]]).await?;
    // The engine can start this container without dockbridge, because the container's files for
    // `dockbridge-runtime` still exist.
    stage.engine.docker(&["start", &made[0]]).await?;
    ensure_eq!(stage.engine.inside(&made[0], "id -u").await?, "0");
    stage.engine.docker(&["kill", &sandbox]).await?;
    until_not_ready(&stage.cri, &sandbox).await?;
    stage.cri.clear().await?;
    stage.engine.control(&["restart"]).await?;
    until_ready(&stage.cri).await?;
    stage.leaves_nothing().await
}

/// RunPodSandbox, CreateContainer or StartContainer is cancelled and dockbridge is killed, each time at a later moment.
pub(crate) async fn killed_at_random_moments(world: World) -> Outcome {
    let Some(mut stage) = stage(&world, "mapped_cuts").await? else { return Ok(()) };
    for nth in 0..KILLS {
        let pod = mapped_pod(&stage, &format!("pod-{nth}"));
        let main = mapped(stage.recipes.sleeper("main"));
        let work = async {
            let sandbox = stage.cri.run(&pod).await?;
            stage.up(&sandbox, &pod, &[main]).await
        };
        drop(tokio::time::timeout(Duration::from_millis(40 * nth), work).await);
        stage.cri = stage.bridge.crash().await?;
    }
    until_ready(&stage.cri).await?;
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

async fn stage(world: &World, story: &str) -> Outcome<Option<Stage>> {
    if !world.has_oci_runtime {
        skip(Lack::OciRuntime);
        return Ok(None);
    }
    Stage::cni(world, story).await.map(Some)
}

pub(crate) fn mapped_pod(stage: &Stage, name: &str) -> cri::PodSandboxConfig {
    let mut pod = stage.recipes.pod(name);
    pod::namespaces_of(&mut pod).userns_options = Some(users());
    pod
}

pub(crate) fn mapped(mut container: cri::ContainerConfig) -> cri::ContainerConfig {
    pod::namespaces_in(&mut container).userns_options = Some(users());
    container
}

/// The id mappings of the pods, in the form that kubelet sends.
fn users() -> cri::UserNamespace {
    let mode = cri::NamespaceMode::Pod.into();
    cri::UserNamespace { mode, uids: ids(), gids: ids() }
}

fn ids() -> Vec<cri::IdMapping> {
    vec![cri::IdMapping { host_id: FIRST, container_id: 0, length: 65536 }]
}

/// A directory with files of several owners, each readable only for its owner, with the id mappings that kubelet
/// requests for the mount.
fn volume_of_many_users(stage: &Stage) -> Outcome<cri::Mount> {
    let directory = stage.folders.shared.join("volume");
    fs::create_dir(&directory)?;
    for (name, text, id) in
        [("of-root", "root's", 0), ("of-www", "www's", 33), ("of-user", "user's", 1000)]
    {
        let path = directory.join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        chown(&path, Some(id), Some(id))?;
    }
    Ok(cri::Mount {
        host_path: directory.display().to_string(),
        container_path: "/volume".to_owned(),
        uid_mappings: ids(),
        gid_mappings: ids(),
        ..Default::default()
    })
}

/// Commits a copy of the world's image with a set-uid program and files of another user.
async fn image_of_many_users(stage: &Stage) -> Outcome<String> {
    let line = "cp /bin/busybox /suid && chmod 4755 /suid && echo hi >/of-www && \
                chmod 640 /of-www && chown 33:33 /of-www && mkdir /files && cp -p /of-www /files";
    committed(stage, "users", line, &[]).await
}

/// Runs `line` in the world's image, and commits the result as another image.
async fn committed(stage: &Stage, name: &str, line: &str, changes: &[&str]) -> Outcome<String> {
    let run = ["run", "--name", name, "--network", "none", &stage.world.image, "sh", "-c", line];
    stage.engine.docker(&run).await?;
    let mut commit = vec!["commit"];
    commit.extend(changes.iter().flat_map(|change| ["-c", change]));
    let tag = format!("dockbridge.test/{name}:1");
    commit.extend([name, &tag]);
    let image = stage.engine.docker(&commit).await?;
    stage.engine.docker(&["rm", name]).await?;
    Ok(image)
}

/// The user id of the pod's root on the host.
const FIRST: u32 = 200_000;
const KILLS: u64 = 16;
const LIVE_RESTORE: &str = "--live-restore";
