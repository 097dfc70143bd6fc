//! Tests the users and groups of a container's process, as the container's status and the kernel show them.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use dockbridge::wire::cri::{self, SupplementalGroupsPolicy as Policy};
use tokio::time::{sleep, timeout};
use tonic::Code;

use crate::support::{
    failure::{Outcome, ensure, ensure_eq, fail},
    patience::patient,
    stage::Stage,
    world::World,
};

const PASSWD: &str = "root:x:0:0::/:\napp:x:1000:1001::/:\n";
const GROUP: &str = "root:x:0:\napp:x:1001:\nextra:x:2000:app\nmore:x:2001:root,app\n";

/// A case: the image's user, the requested user and group, the resulting ids, and the resulting groups with
/// the policies Merge and Strict, without the requested supplemental groups.
type Row = (&'static str, Asked, Option<i64>, (i64, i64), &'static [i64], &'static [i64]);

#[derive(Clone, Copy, Debug)]
enum Asked {
    Nobody,
    Uid(i64),
    Name(&'static str),
}

const ROWS: &[Row] = &[
    ("", Asked::Nobody, None, (0, 0), &[0, 2001], &[0]),
    ("app", Asked::Nobody, None, (1000, 1001), &[1001, 2000, 2001], &[1001]),
    ("1000:0", Asked::Nobody, None, (1000, 0), &[0, 2000, 2001], &[0]),
    ("app:extra", Asked::Nobody, None, (1000, 2000), &[2000, 2001], &[2000]),
    ("app:extra", Asked::Uid(0), None, (0, 0), &[0, 2001], &[0]),
    ("", Asked::Uid(1000), None, (1000, 1001), &[1001, 2000, 2001], &[1001]),
    ("", Asked::Uid(1000), Some(7), (1000, 7), &[7, 2000, 2001], &[7]),
    ("", Asked::Uid(4242), None, (4242, 0), &[0], &[0]),
    ("", Asked::Uid(4242), Some(2000), (4242, 2000), &[2000], &[2000]),
    ("", Asked::Name("app"), None, (1000, 1001), &[1001, 2000, 2001], &[1001]),
    ("", Asked::Name("app"), Some(7), (1000, 7), &[7, 2000, 2001], &[7]),
];

/// Tests ways to request a user, with each group policy.
pub(crate) async fn merged_and_strict(world: World) -> Outcome {
    let stage = Stage::cni(&world, "merged_and_strict").await?;
    let tells = stage.cri.status(false).await?.features.unwrap_or_default();
    ensure!(tells.supplemental_groups_policy, "kubelet would keep such pods away");
    let images = Images::of(&stage, "").await?;
    let pod = stage.recipes.pod("who");
    let sandbox = stage.cri.run(&pod).await?;
    for (nth, (image, asked, group, (uid, gid), merged, strict)) in ROWS.iter().enumerate() {
        for (policy, groups) in [(Policy::Merge, merged), (Policy::Strict, strict)] {
            let image = images.user(&stage, image).await?;
            let mut config = stage.recipes.sleeper(&format!("c{nth}-{}", i32::from(policy)));
            config.image = Some(cri::ImageSpec { image, ..Default::default() });
            say(&mut config, *asked, *group, policy);
            let id = stage.up(&sandbox, &pod, &[config]).await?.remove(0);
            let groups = groups.iter().copied().chain([3000, 2001]).collect();
            is(&stage, &id, &(*uid, *gid, groups), &format!("{nth} {policy:?}")).await?;
            stage.cri.remove_container(&id).await?;
        }
    }
    stage.cri.clear().await?;
    images.remove(&stage).await?;
    stage.leaves_nothing().await
}

/// Tests images whose `passwd` and `group` are symbolic links or missing, or whose `passwd` has unusual lines.
pub(crate) async fn in_odd_images(world: World) -> Outcome {
    let stage = Stage::cni(&world, "in_odd_images").await?;
    let pod = stage.recipes.pod("odd");
    let sandbox = stage.cri.run(&pod).await?;
    let moved = "mkdir -p /usr/lib; mv /etc/passwd /usr/lib/; ln -s ../usr/lib/passwd /etc/passwd; \
                 mv /etc/group /usr/lib/; ln -s /../../usr/lib/group /etc/group";
    let odd = "printf '# people\n+::::::\nodd:x:many:0::/:\n' | cat - /etc/passwd > /odd; \
               mv /odd /etc/passwd";
    for (name, line, user, wanted) in [
        ("linked", moved, "app", (1000, 1001, vec![1001, 2000, 2001, 3000])),
        ("bare", "rm /etc/passwd /etc/group", "1000", (1000, 0, vec![0, 2001, 3000])),
        ("crooked", odd, "0", (0, 0, vec![0, 2001, 3000])),
        ("crooked-app", odd, "app", (1000, 1001, vec![1001, 2000, 2001, 3000])),
    ] {
        let images = Images::of(&stage, line).await?;
        let mut config = stage.recipes.sleeper(name);
        let image = images.user(&stage, user).await?;
        config.image = Some(cri::ImageSpec { image, ..Default::default() });
        say(&mut config, Asked::Nobody, None, Policy::Merge);
        let id = stage.up(&sandbox, &pod, &[config]).await?.remove(0);
        let (uid, gid, groups) = wanted;
        is(&stage, &id, &(uid, gid, groups.into_iter().collect()), name).await?;
        stage.cri.remove_container(&id).await?;
        images.remove(&stage).await?;
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Tests images whose `passwd` or `group` is not a regular file. Engines open `passwd` and `group` at a container's
/// start, and a start that hangs while reading a pipe blocks its container until the engine is restarted. So dockbridge
/// refuses containers whose start would hang.
pub(crate) async fn accounts_are_no_files(world: World) -> Outcome {
    let stage = Stage::cni(&world, "accounts_are_no_files").await?;
    let pod = stage.recipes.pod("no-files");
    let sandbox = stage.cri.run(&pod).await?;
    for (nth, (line, hangs)) in [
        ("rm /etc/passwd; mkfifo /etc/passwd", true),
        ("rm /etc/group; mkfifo /etc/group", true),
        ("rm /etc/group; mkfifo /pipe; ln -s ../../../pipe /etc/group", true),
        ("rm /etc/passwd; mknod /etc/passwd c 1 5", true),
        ("rm /etc/passwd; mkdir /etc/passwd", false),
        ("rm /etc/passwd; ln -s ../../../../../../dev/zero /etc/passwd", false),
        ("rm /etc/group; ln -s group /etc/group", false),
    ]
    .into_iter()
    .enumerate()
    {
        let images = Images::of(&stage, line).await?;
        let image = images.user(&stage, "").await?;
        for (asked, policy) in [
            (Asked::Name("app"), Policy::Merge),
            (Asked::Uid(1000), Policy::Strict),
            (Asked::Nobody, Policy::Merge),
        ] {
            let mut config = stage.recipes.sleeper(&format!("c{nth}"));
            config.image = Some(cri::ImageSpec { image: image.clone(), ..Default::default() });
            say(&mut config, asked, None, policy);
            let create = stage.cri.create(&sandbox, &config, &pod);
            let Ok(created) = timeout(patient(IN_TIME), create).await else {
                fail!("{line}, {asked:?}: no answer");
            };
            match created {
                Err(refused) if hangs => {
                    ensure_eq!(refused.code, Code::FailedPrecondition, "{refused}");
                    ensure!(refused.message.contains("/etc/"), "{refused}");
                }
                Err(_) => {}
                Ok(id) => {
                    ensure!(!hangs, "{line}, {asked:?}: was created");
                    ensure!(
                        timeout(patient(IN_TIME), stage.cri.start(&id)).await.is_ok(),
                        "{line}"
                    );
                    stage.cri.remove_container(&id).await?;
                }
            }
        }
        images.remove(&stage).await?;
    }
    stage.cri.clear().await?;
    stage.leaves_nothing().await
}

/// Before it creates a container, dockbridge refuses names of users and groups that the image lacks, and a group id
/// that is the name of another group in the image.
pub(crate) async fn unknown_to_the_image(world: World) -> Outcome {
    let stage = Stage::cni(&world, "unknown_to_the_image").await?;
    let images = Images::of(&stage, "echo 2500:x:0: >> /etc/group").await?;
    let pod = stage.recipes.pod("strangers");
    let sandbox = stage.cri.run(&pod).await?;
    let before = held(&stage).await?;
    for (user, asked, group, needle) in [
        ("", Asked::Name("nobody"), None, "run_as_username: the image's /etc/passwd has no user"),
        ("ghost", Asked::Nobody, None, "has no user \"ghost\""),
        ("app:ghosts", Asked::Nobody, None, "has no group \"ghosts\""),
        ("", Asked::Uid(1000), Some(2500), "group 2500"),
    ] {
        let mut config = stage.recipes.sleeper("main");
        let image = images.user(&stage, user).await?;
        config.image = Some(cri::ImageSpec { image, ..Default::default() });
        say(&mut config, asked, group, Policy::Merge);
        let Some(refused) = stage.cri.create(&sandbox, &config, &pod).await.err() else {
            fail!("{user:?} {asked:?} was created");
        };
        ensure_eq!(refused.code, Code::InvalidArgument, "{refused}");
        ensure!(refused.message.contains(needle), "{refused}");
        ensure_eq!(held(&stage).await?, before);
    }
    stage.cri.clear().await?;
    images.remove(&stage).await?;
    stage.leaves_nothing().await
}

/// Reading files of an image that declares volumes leaves no volume. At its start, dockbridge removes the containers
/// that a killed dockbridge used for reading files, but keeps a container of another program with the same label.
pub(crate) async fn looked_up_without_a_trace(world: World) -> Outcome {
    let mut stage = Stage::cni(&world, "without_a_trace").await?;
    let images = Images::of(&stage, "mkdir -p /data; echo kept > /data/file").await?;
    let image = images.changed(&stage, "VOLUME /data").await?;
    let label = "io.dockbridge.image-inspection=1";
    let own = ["create", "--label", label, "--name", "own-look", &world.image, "true"];
    let stranger = stage.engine.docker(&own).await?;
    let mut kept = [stranger.clone(), images.made.clone()];
    kept.sort();
    let left =
        ["create", "--label", label, "--name", "dockbridge-image-inspection-00-1", &image, "true"];
    stage.engine.docker(&left).await?;
    ensure_eq!(held(&stage).await?.1.len(), 1);
    stage.cri = stage.bridge.crash().await?;
    until_only(&stage, &kept).await?;

    for round in 0..8 {
        let pod = stage.recipes.pod(&format!("r{round}"));
        let sandbox = stage.cri.run(&pod).await?;
        let mut config = stage.recipes.sleeper("main");
        config.image = Some(cri::ImageSpec { image: image.clone(), ..Default::default() });
        // The image lacks this user, so this call creates no container except the one for reading the image's files.
        say(&mut config, Asked::Name("nobody"), None, Policy::Merge);
        let cri = stage.cri.clone();
        let call = tokio::spawn(async move { cri.create(&sandbox, &config, &pod).await.err() });
        sleep(patient(Duration::from_millis(6 * round))).await;
        stage.cri = stage.bridge.crash().await?;
        drop(call.await);
        stage.cri.clear().await?;
    }
    until_only(&stage, &kept).await?;
    stage.engine.docker(&["rm", &stranger]).await?;
    images.remove(&stage).await?;
    stage.leaves_nothing().await
}

/// Waits until the engine has only the containers `kept`, and no volumes.
async fn until_only(stage: &Stage, kept: &[String]) -> Outcome {
    for _ in 0..300 {
        let (containers, volumes) = held(stage).await?;
        if containers == kept && volumes.is_empty() {
            return Ok(());
        }
        sleep(patient(Duration::from_millis(100))).await;
    }
    fail!("there are {:?}, not {kept:?} and no volume", held(stage).await?)
}

/// The ids of the engine's containers and the names of its volumes.
async fn held(stage: &Stage) -> Outcome<(Vec<String>, Vec<String>)> {
    let volumes = stage.engine.docker(&["volume", "ls", "-q"]).await?;
    let mut containers = stage.engine.containers().await?;
    containers.sort();
    Ok((containers, volumes.lines().map(str::to_owned).collect()))
}

fn say(config: &mut cri::ContainerConfig, asked: Asked, group: Option<i64>, policy: Policy) {
    let linux = config.linux.get_or_insert_default();
    let context = linux.security_context.get_or_insert_default();
    match asked {
        Asked::Nobody => {}
        Asked::Uid(uid) => context.run_as_user = Some(cri::Int64Value { value: uid }),
        Asked::Name(name) => context.run_as_username = name.to_owned(),
    }
    context.run_as_group = group.map(|value| cri::Int64Value { value });
    context.supplemental_groups = vec![3000, 2001, 3000];
    context.supplemental_groups_policy = policy.into();
}

/// Checks that the container's status and the kernel show the expected ids and groups.
async fn is(stage: &Stage, id: &str, wanted: &(i64, i64, BTreeSet<i64>), row: &str) -> Outcome {
    let user = stage.cri.container(id).await?.user.unwrap_or_default().linux.unwrap_or_default();
    let ascending: Vec<i64> = wanted.2.iter().copied().collect();
    ensure_eq!((user.uid, user.gid), (wanted.0, wanted.1), "{row}");
    ensure_eq!(user.supplemental_groups, ascending, "{row}");
    let pid = stage.engine.docker(&["inspect", "-f", "{{.State.Pid}}", id]).await?;
    let status = fs::read_to_string(Path::new("/proc").join(pid).join("status"))?;
    let numbers = |key: &str| -> BTreeSet<i64> {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        line.split_whitespace().filter_map(|number| number.parse().ok()).collect()
    };
    ensure_eq!(numbers("Uid:"), BTreeSet::from([wanted.0]), "{row}");
    ensure_eq!(numbers("Gid:"), BTreeSet::from([wanted.1]), "{row}");
    ensure_eq!(numbers("Groups:"), wanted.2, "{row}");
    Ok(())
}

/// Images whose `passwd` and `group` the story has written.
struct Images {
    /// The container from which the images are committed.
    made: String,
}

impl Images {
    /// Runs a container that writes `passwd` and `group`, and then runs the shell line `line`, which can change them.
    async fn of(stage: &Stage, line: &str) -> Outcome<Self> {
        let line =
            format!("printf '{PASSWD}' > /etc/passwd; printf '{GROUP}' > /etc/group; {line}");
        let line = line.replace('\n', "\\n");
        let made = ["run", "-d", "--net", "none", &stage.world.image, "sh", "-ec", &line];
        let made = stage.engine.docker(&made).await?;
        ensure_eq!(stage.engine.docker(&["wait", &made]).await?, "0", "{line}");
        Ok(Self { made })
    }

    /// Commits an image with a changed configuration, and returns its id.
    async fn changed(&self, stage: &Stage, change: &str) -> Outcome<String> {
        let label = format!("LABEL {MARK}");
        stage.engine.docker(&["commit", "-c", &label, "-c", change, &self.made]).await
    }

    /// Commits an image with this user, or without a user if `user` is empty.
    async fn user(&self, stage: &Stage, user: &str) -> Outcome<String> {
        match user {
            "" => self.changed(stage, "WORKDIR /").await,
            user => self.changed(stage, &format!("USER {user}")).await,
        }
    }

    async fn remove(self, stage: &Stage) -> Outcome {
        stage.engine.docker(&["rm", &self.made]).await?;
        let filter = format!("label={MARK}");
        let listing = ["images", "-aq", "--no-trunc", "--filter", &filter];
        let listed = stage.engine.docker(&listing).await?;
        let made: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
        for image in made {
            stage.engine.docker(&["rmi", "-f", &image]).await?;
        }
        Ok(())
    }
}

/// A time limit that is much longer than a slow engine needs, and shorter than the time for which a start would hang.
const IN_TIME: Duration = Duration::from_secs(30);
const MARK: &str = "dockbridge.story=identity";
