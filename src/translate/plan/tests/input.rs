//! Reads the input of a plan from a fixture, and makes a plain pod.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use serde::Deserialize;
use serde_json::json;

use crate::{
    error::Failure,
    translate::plan::{
        container::{self, ContainerPlan},
        input::{ContainerInput, PodFiles, SandboxInput},
        sandbox::{self, SandboxPlan},
    },
};
use crate::{
    model::{
        accounts::Accounts,
        container::{ContainerLogFormat, ContainerSpec},
        engine::{ApiVersion, EngineInfo},
        id::{ContainerId, ImageId, SandboxId},
        network::NetworkMode,
        oci_edits::RUNTIME,
        record::{ImageRecord, Process, SandboxRecord},
        sandbox::SandboxSpec,
        spec_edit::SpecEdit,
        time::Nanos,
        volume::{ImageVolume, VolumeSource},
    },
    translate::observe,
};

/// The input of a plan, as a fixture has it.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TestInput {
    pub(super) api: u16,
    pub(super) cgroup_driver: String,
    pub(super) cgroup_version: u8,
    pub(super) network: NetworkMode,
    pub(super) oom_floor: i64,
    pub(super) security_options: Vec<String>,
    pub(super) cdi_spec_dirs: Vec<String>,
    pub(super) repo_digests: Vec<String>,
    pub(super) files: bool,
    pub(super) pid_target: bool,
    pub(super) seccomp: Option<String>,
    pub(super) linked_log: bool,
    pub(super) cdi: Option<Vec<SpecEdit>>,
    pub(super) image_volumes: Vec<Volume>,
    pub(super) image_user: String,
    /// The paths at which the image declares volumes.
    pub(super) declared_volumes: BTreeSet<String>,
    /// Whether the engine has dockbridge-runtime.
    pub(super) oci_runtime: bool,
    pub(super) is_adjustable: bool,
    pub(super) storage_driver: String,
    /// The image's `/etc/passwd` and `/etc/group`; `None` if they are unreadable.
    pub(super) accounts: Option<AccountFiles>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct AccountFiles {
    pub(super) passwd: String,
    pub(super) group: String,
}

/// An image volume: the engine mounts the image, or its files are in `folder`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Volume {
    pub(super) image: String,
    pub(super) sub_path: String,
    pub(super) folder: Option<PathBuf>,
}

impl Volume {
    fn ready(&self) -> ImageVolume {
        let sub_path = self.sub_path.clone();
        ImageVolume {
            image: ImageId::try_from(self.image.as_str()).unwrap(),
            source: match self.folder.clone() {
                Some(path) => VolumeSource::Directory { path },
                None => VolumeSource::Engine { sub_path },
            },
        }
    }
}

impl Default for TestInput {
    fn default() -> Self {
        Self {
            api: 45,
            cgroup_driver: "cgroupfs".to_owned(),
            cgroup_version: 2,
            network: NetworkMode::Cni,
            oom_floor: -1000,
            security_options: vec!["name=seccomp,profile=builtin".to_owned()],
            cdi_spec_dirs: Vec::new(),
            repo_digests: Vec::new(),
            files: false,
            pid_target: false,
            seccomp: None,
            linked_log: false,
            cdi: None,
            image_volumes: Vec::new(),
            image_user: String::new(),
            declared_volumes: BTreeSet::new(),
            oci_runtime: false,
            is_adjustable: false,
            storage_driver: "overlay2".to_owned(),
            accounts: Some(AccountFiles::default()),
        }
    }
}

impl TestInput {
    pub(super) fn engine(&self) -> EngineInfo {
        let mut info = json!({
            "Driver": self.storage_driver,
            "CgroupDriver": self.cgroup_driver,
            "CgroupVersion": self.cgroup_version.to_string(),
            "DockerRootDir": "/var/lib/docker",
            "Runtimes": {"runc": {"status": {FEATURES: r#"{"mountOptions":["rro"]}"#}}, "crun": {}},
            "KernelVersion": "6.1.0-13-amd64",
            "SecurityOptions": self.security_options,
            "CDISpecDirs": self.cdi_spec_dirs,
        });
        if self.oci_runtime {
            info["Runtimes"][RUNTIME] = json!({});
        }
        let info = serde_json::from_value(info).unwrap();
        observe::engine::observe(&Default::default(), &info, ApiVersion::new(self.api))
    }

    pub(super) fn sandbox(&self, spec: SandboxSpec) -> Result<SandboxPlan, Failure> {
        let (engine, pause) = (self.engine(), pause());
        sandbox::plan(
            spec,
            &SandboxInput {
                engine: &engine,
                pause: &pause,
                network: self.network,
                oom_floor: self.oom_floor,
                seccomp: self.seccomp.as_deref(),
                shim_group: "group-1",
            },
        )
    }

    pub(super) fn container(
        &self,
        pod: SandboxSpec,
        spec: ContainerSpec,
    ) -> Result<ContainerPlan, Failure> {
        let (engine, sandbox) = (self.engine(), record(self.sandbox(pod)?));
        let image = ImageRecord {
            repo_digests: self.repo_digests.clone(),
            user: self.image_user.clone(),
            volumes: self.declared_volumes.clone(),
            ..image()
        };
        let accounts = self.accounts.as_ref();
        let accounts =
            accounts.map(|files| Accounts::parse(files.passwd.as_bytes(), files.group.as_bytes()));
        let target = ContainerId::try_from("c".repeat(64)).unwrap();
        let volumes: Vec<_> = self.image_volumes.iter().map(Volume::ready).collect();
        let files = if self.files { pod_files() } else { PodFiles::default() };
        container::plan(
            spec,
            &ContainerInput {
                engine: &engine,
                sandbox: &sandbox,
                image: &image,
                oom_floor: self.oom_floor,
                files: &files,
                pid_target: self.pid_target.then_some(&target),
                log_format: match self.linked_log {
                    true => ContainerLogFormat::Docker,
                    false => ContainerLogFormat::Cri,
                },
                seccomp: self.seccomp.as_deref(),
                accounts: accounts.as_ref(),
                cdi: self.cdi.as_deref(),
                is_adjustable: self.is_adjustable,
                restore: None,
                image_volumes: &volumes,
            },
        )
    }
}

pub(super) fn pod() -> SandboxSpec {
    let metadata = json!({"name": "web-0", "namespace": "default", "uid": "u-1", "attempt": 0});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

pub(super) fn workload() -> ContainerSpec {
    let metadata = json!({"name": "nginx", "attempt": 0});
    serde_json::from_value(json!({"metadata": metadata, "image": "nginx"})).unwrap()
}

pub(super) fn record(plan: SandboxPlan) -> SandboxRecord {
    SandboxRecord {
        id: SandboxId::try_from("a".repeat(64)).unwrap(),
        name: plan.name,
        document: Arc::new(plan.document),
        created_at: Nanos(1),
        process: Some(Process::Running { pid: 1, started_at: Nanos(2) }),
        engine_addresses: Vec::new(),
        attachment: None,
    }
}

pub(super) fn pause() -> ImageId {
    ImageId::try_from(format!("sha256:{}", "9".repeat(64))).unwrap()
}

pub(super) fn image_id() -> ImageId {
    ImageId::try_from(format!("sha256:{}", "b".repeat(64))).unwrap()
}

pub(super) fn image() -> ImageRecord {
    ImageRecord {
        id: image_id(),
        repo_tags: vec!["nginx:latest".to_owned()],
        repo_digests: Vec::new(),
        size: 1,
        user: String::new(),
        labels: BTreeMap::new(),
        stop_signal: None,
        volumes: Default::default(),
        inspected: true,
    }
}

pub(super) fn pod_files() -> PodFiles {
    PodFiles {
        resolv_conf: Some("/state/resolv.conf".into()),
        hosts: Some("/state/hosts".into()),
        hostname: Some("/state/hostname".into()),
    }
}

const FEATURES: &str = "org.opencontainers.runtime-spec.features";
