//! Tests edits that `dockbridge-runtime` makes for CDI devices and NRI plugins. The tested edits take effect in a
//! container, also after a restart of the container. Edits of variables and groups also take effect for exec commands.

use std::fs;

use dockbridge::{
    model::{
        oci_edits::{OciEdits, REQUIRED_ANNOTATION, RUNTIME},
        spec_edit::SpecEdit,
    },
    oci_runtime::directory::EditsDirectory,
};
use serde_json::{Value, json};

use crate::skips::{Lack, skip};
use crate::support::{
    failure::{Outcome, ensure, ensure_eq},
    stage::Stage,
    world::World,
};

pub(crate) async fn arrive(world: World) -> Outcome {
    if !world.has_oci_runtime {
        skip(Lack::OciRuntime);
        return Ok(());
    }
    let stage = Stage::cni(&world, "edits").await?;
    let note = format!("{REQUIRED_ANNOTATION}=1");
    let create = ["create", "--runtime", RUNTIME, "--annotation", &note, "-e", "A=0", "-e", "B=0"];
    // With systemd's cgroup driver, the engine needs the name of a slice.
    let is_slice = world.has_systemd_driver();
    let parent = if is_slice { world.cgroup.trim_start_matches('/') } else { &world.cgroup };
    let words = [&create[..], &["--cgroup-parent", parent, &world.image, "sleep", "600"]];
    let id = stage.engine.docker(&words.concat()).await?;
    let edits = OciEdits { edits: edits(&stage)?, ..Default::default() };
    let directory = EditsDirectory::default();
    directory.write(&id, &edits)?;

    for attempt in ["start", "restart"] {
        stage.engine.docker(&[attempt, &id]).await?;
        has_all(&stage, &id, attempt).await?;
    }
    stage.engine.docker(&["rm", "-f", &id]).await?;
    for hook in HOOKS {
        ensure!(stage.folders.shared.join(hook).exists(), "the hook {hook} was not run");
    }
    let state = fs::read_to_string(stage.folders.shared.join("createRuntime"))?;
    let state: Value = serde_json::from_str(&state)?;
    ensure_eq!(state["annotations"]["plugin"], "yes");
    directory.remove(&id)?;
    stage.leaves_nothing().await
}

/// Edits of many kinds, all of which the OCI runtimes of all tested engines accept.
fn edits(stage: &Stage) -> Outcome<Vec<SpecEdit>> {
    let shared = &stage.folders.shared;
    let hosts = shared.join("hosts");
    fs::write(&hosts, "the plugin's\n")?;
    let hook = |name: &str| {
        let file = shared.join(name).display().to_string();
        let args = ["sh", "-c", &format!("cat >{file}")];
        let hook = json!({"path": "/bin/sh", "args": args, "timeout": 20});
        SpecEdit::add(&["hooks", name], [hook])
    };
    let mut edits: Vec<SpecEdit> = HOOKS.into_iter().map(hook).collect();
    // The hook `startContainer` runs in the container's namespaces.
    let touch = json!({"path": "/bin/touch", "args": ["touch", "/dev/shm/started"]});
    let device = json!({
        "type": "c", "major": 1, "minor": 7, "fileMode": 0o640, "uid": 5, "gid": 6, "access": "rw",
    });
    let rule = json!({"allow": true, "type": "c", "major": 240, "minor": 7, "access": "r"});
    let tmpfs = json!({"type": "tmpfs", "source": "tmpfs", "options": ["size=64k", "noexec"]});
    let bind = json!({"type": "bind", "source": hosts, "options": ["bind", "ro"]});
    let seccomp = json!({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 17},
    ]});
    edits.extend([
        SpecEdit::add(&["hooks", "startContainer"], [touch]),
        SpecEdit::set(&["process", "args"], json!(["sleep", "700"])),
        SpecEdit::set(&["process", "env", "A"], "1"),
        SpecEdit::remove(&["process", "env", "B"]),
        SpecEdit::set(&["process", "env", "C"], "with = sign"),
        SpecEdit::add(&["process", "user", "additionalGids"], [4242]),
        SpecEdit::set(&["annotations", "plugin"], "yes"),
        SpecEdit::set(&["mounts", "/t"], tmpfs),
        SpecEdit::set(&["mounts", "/etc/hosts"], bind),
        SpecEdit::remove(&["mounts", "/dev/mqueue"]),
        SpecEdit::set(&["linux", "devices", "/dev/gadget"], device),
        SpecEdit::add(&["linux", "resources", "devices"], [rule]),
        SpecEdit::set(&["process", "rlimits", "RLIMIT_NOFILE"], json!({"hard": 99, "soft": 77})),
        SpecEdit::set(&["linux", "sysctl", "kernel.shm_rmid_forced"], "1"),
        SpecEdit::set(&["linux", "namespaces", "cgroup"], json!({})),
        SpecEdit::set(&["process", "oomScoreAdj"], 123),
        SpecEdit::set(
            &["process", "ioPriority"],
            json!({"class": "IOPRIO_CLASS_BE", "priority": 3}),
        ),
        SpecEdit::set(&["process", "scheduler"], json!({"policy": "SCHED_BATCH"})),
        SpecEdit::set(&["linux", "seccomp"], seccomp),
    ]);
    Ok(edits)
}

async fn has_all(stage: &Stage, id: &str, attempt: &str) -> Outcome {
    for (line, said) in [
        ("tr '\\0' ' ' </proc/1/cmdline", "sleep 700"),
        ("tr '\\0' '\\n' </proc/1/environ | grep '^[ABC]='", "A=1\nC=with = sign"),
        ("env | grep '^[ABC]=' | sort", "A=1\nC=with = sign"),
        ("grep -c 4242 /proc/1/status", "1"),
        ("id -G | grep -c 4242", "1"),
        ("grep -c ' /t tmpfs .*noexec.*size=64k' /proc/mounts", "1"),
        ("cat /etc/hosts", "the plugin's"),
        ("grep -c mqueue /proc/mounts", "0"),
        ("stat -c '%t:%T %a %u:%g' /dev/gadget", "1:7 640 5:6"),
        ("(echo x >/dev/gadget) 2>&1 | grep -c 'No space left'", "1"),
        // No driver has this device number, so opening the device fails with "No such device". Without the
        // device rule, opening the device would not be permitted.
        ("mknod /dev/none c 240 7; cat /dev/none 2>&1 | grep -c 'No such device'", "1"),
        ("grep -c 'open files *77 *99' /proc/1/limits", "1"),
        ("cat /proc/sys/kernel/shm_rmid_forced", "1"),
        ("cat /proc/1/oom_score_adj", "123"),
        ("mkdir /new 2>&1 | grep -c 'File exists'", "1"),
        ("ls /dev/shm/started", "/dev/shm/started"),
    ] {
        let line = format!("{line} || true");
        let found = stage.engine.inside(id, &line).await?;
        ensure_eq!(found.trim(), said, "{attempt}: {line}");
    }
    let inside = stage.engine.inside(id, "readlink /proc/1/ns/cgroup").await?;
    ensure!(inside != fs::read_link("/proc/1/ns/cgroup")?.display().to_string(), "{inside}");
    // The tested engines before version 28 have runc 1.1, which ignores the scheduler and the I/O priority.
    if stage.world.docker_major >= 28 {
        // Field 41 is the scheduling policy, which must be 3. The process name in field 2 has no spaces.
        let policy = stage.engine.inside(id, "cut -d ' ' -f 41 /proc/1/stat").await?;
        ensure_eq!(policy, "3", "the scheduler's policy");
    }
    Ok(())
}

const HOOKS: [&str; 5] = ["prestart", "createRuntime", "createContainer", "poststart", "poststop"];
