//! Reads the merged answer of all plugins: limits for an update of the container, and the rest in the
//! words of the OCI runtime.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{
    error::{At, ParseError},
    resources,
};
use crate::{
    model::{
        adjustment::Adjustment,
        oci_changes::{
            CpuChange, DeviceChange, DeviceRule, Hook, Hooks, IoPriority, MemoryChange,
            MemoryPolicy, MountChange, OciChanges, OciDevice, OciMount, RdtChange, Rlimit,
            Scheduler, Seccomp, SyscallArgument, SyscallRule,
        },
        resources::Resources,
    },
    wire::{
        cri,
        nri::{self, REMOVED},
    },
};

/// Plugins ask for what no container can have.
#[derive(Debug, Error)]
pub enum AdjustmentError {
    /// A limit out of range.
    #[error("NRI plugins set limits that no container can have")]
    Limits(#[from] ParseError),
    /// More than a container can have.
    #[error("NRI plugin {plugin} asks for {many} changes, where {MOST_CHANGES} are permitted")]
    Changes {
        plugin: String,
        /// Their number.
        many: usize,
    },
    /// What is not known here.
    #[error("NRI plugin {plugin}: {field}: {reason}")]
    Unsupported {
        plugin: String,
        /// The field, as the interface spells it.
        field: &'static str,
        /// Why it is not done.
        reason: &'static str,
    },
}

/// Reads the answer, whose fields belong to `owners`.
///
/// # Errors
/// A limit is out of range, or something is asked for that is not known here.
pub fn adjustment(
    given: &nri::ContainerAdjustment,
    owners: BTreeMap<String, String>,
) -> Result<Adjustment, AdjustmentError> {
    let mut changes = OciChanges {
        args: given.args.clone(),
        env: given.env.iter().map(|pair| entry(&pair.key, pair.value.clone())).collect(),
        annotations: given
            .annotations
            .iter()
            .map(|(key, value)| entry(key, value.clone()))
            .collect(),
        hooks: given.hooks.as_ref().map(hooks).unwrap_or_default(),
        mounts: given.mounts.iter().map(mount).collect(),
        rlimits: given.rlimits.iter().map(rlimit).collect(),
        ..OciChanges::default()
    };
    let mut resources = Resources::default();
    if let Some(linux) = &given.linux {
        change_linux(&mut changes, linux);
        if let Some(given) = &linux.resources {
            resources = limits(given)?;
            check_classes(given, &owners)?;
            change_resources(&mut changes, given);
        }
        match linux.oom_score_adj.map(|score| score.value) {
            // An update takes it for "not set".
            Some(0) => changes.oom_score_adj = Some(0),
            Some(score) => {
                resources.oom_score_adj = resources::oom_score(score).at("oom_score_adj")?;
            }
            None => {}
        }
    }
    let cdi_devices = given.cdi_devices.iter().map(|device| device.name.clone()).collect();
    Ok(Adjustment { resources, cdi_devices, changes, owners })
}

/// Checks what one plugin asks for, before anything is made of it: each of these becomes an entry of the
/// container's configuration, which is searched for every one.
///
/// # Errors
/// [`AdjustmentError::Changes`].
pub fn check_length(plugin: &str, given: &nri::ContainerAdjustment) -> Result<(), AdjustmentError> {
    let hooks = given.hooks.as_ref().map(hooks).unwrap_or_default();
    let hooks = hooks.lists().into_iter().map(<[Hook]>::len).sum::<usize>();
    let linux = given.linux.as_ref().map_or(0, |linux| {
        let resources = linux.resources.as_ref().map_or(0, |given| {
            given.hugepage_limits.len() + given.unified.len() + given.devices.len()
        });
        let syscalls = linux.seccomp_policy.as_ref().map_or(0, |policy| policy.syscalls.len());
        let (devices, parameters) =
            (linux.devices.len() + linux.net_devices.len(), linux.sysctl.len());
        resources + syscalls + devices + parameters + linux.namespaces.len()
    });
    let process = given.args.len() + given.env.len() + given.rlimits.len();
    let many = process + given.annotations.len() + given.mounts.len() + given.cdi_devices.len();
    match many + hooks + linux {
        many if many > MOST_CHANGES => {
            Err(AdjustmentError::Changes { plugin: plugin.to_owned(), many })
        }
        _ => Ok(()),
    }
}

/// Reads limits for an update of a container; what is absent stays. Those that CRI has are checked as
/// kubelet's are.
///
/// # Errors
/// Names the field that is out of the kernel's range, or that no container can have.
pub fn limits(given: &nri::LinuxResources) -> Result<Resources, ParseError> {
    let (memory, cpu) = (given.memory.as_ref(), given.cpu.as_ref());
    let signed = |value: Option<&nri::OptionalInt64>| value.map_or(0, |value| value.value);
    let unsigned = |value: Option<&nri::OptionalUInt64>| {
        i64::try_from(value.map_or(0, |value| value.value))
            .map_err(|_| ParseError::invalid("is out of range"))
    };
    let as_kubelet = cri::LinuxContainerResources {
        cpu_period: unsigned(cpu.and_then(|cpu| cpu.period.as_ref())).at("cpu.period")?,
        cpu_quota: signed(cpu.and_then(|cpu| cpu.quota.as_ref())),
        cpu_shares: unsigned(cpu.and_then(|cpu| cpu.shares.as_ref())).at("cpu.shares")?,
        memory_limit_in_bytes: signed(memory.and_then(|memory| memory.limit.as_ref())),
        memory_swap_limit_in_bytes: signed(memory.and_then(|memory| memory.swap.as_ref())),
        cpuset_cpus: cpu.map(|cpu| cpu.cpus.clone()).unwrap_or_default(),
        cpuset_mems: cpu.map(|cpu| cpu.mems.clone()).unwrap_or_default(),
        hugepage_limits: (given.hugepage_limits.iter())
            .map(|limit| cri::HugepageLimit {
                page_size: limit.page_size.clone(),
                limit: limit.limit,
            })
            .collect(),
        unified: given.unified.clone(),
        ..cri::LinuxContainerResources::default()
    };
    let asked = cri::UpdateContainerResourcesRequest {
        linux: Some(as_kubelet),
        ..cri::UpdateContainerResourcesRequest::default()
    };
    let pids = given.pids.as_ref().map(|pids| pids.limit);
    Ok(Resources {
        pids_limit: pids.map_or(0, |most| if most < 1 { -1 } else { most }),
        memory_reservation: signed(memory.and_then(|memory| memory.reservation.as_ref())).max(0),
        ..resources::update(&asked)?
    })
}

/// Classes are names in a configuration of other runtimes.
fn check_classes(
    given: &nri::LinuxResources,
    owners: &BTreeMap<String, String>,
) -> Result<(), AdjustmentError> {
    let field = "linux.resources.blockio_class";
    if given.blockio_class.as_ref().is_some_and(|class| !class.value.is_empty()) {
        return Err(AdjustmentError::Unsupported {
            plugin: owners.get(field).cloned().unwrap_or_default(),
            field,
            reason: "block I/O classes are not supported",
        });
    }
    Ok(())
}

fn change_linux(changes: &mut OciChanges, given: &nri::LinuxContainerAdjustment) {
    changes.devices = given.devices.iter().map(device).collect();
    changes.cgroups_path.clone_from(&given.cgroups_path);
    changes.sysctls = given.sysctl.iter().map(|(key, value)| entry(key, value.clone())).collect();
    changes.namespaces =
        given.namespaces.iter().map(|it| entry(&it.r#type, it.path.clone())).collect();
    changes.net_devices =
        given.net_devices.iter().map(|(key, it)| entry(key, it.name.clone())).collect();
    changes.io_priority = given.io_priority.as_ref().and_then(io_priority);
    changes.scheduler = given.scheduler.as_ref().map(scheduler);
    changes.seccomp = given.seccomp_policy.as_ref().map(seccomp);
    changes.rdt = given.rdt.as_ref().map(rdt).unwrap_or_default();
    changes.memory_policy = given.memory_policy.as_ref().map(memory_policy);
}

/// What an update cannot change, or cannot before the start.
fn change_resources(changes: &mut OciChanges, given: &nri::LinuxResources) {
    let memory = given.memory.unwrap_or_default();
    changes.memory = MemoryChange {
        kernel: memory.kernel.map(|bytes| bytes.value),
        kernel_tcp: memory.kernel_tcp.map(|bytes| bytes.value),
        swappiness: memory.swappiness.map(|level| level.value),
        disable_oom_killer: memory.disable_oom_killer.map(|on| on.value),
        use_hierarchy: memory.use_hierarchy.map(|on| on.value),
    };
    let cpu = given.cpu.as_ref();
    changes.cpu = CpuChange {
        realtime_runtime: cpu.and_then(|cpu| cpu.realtime_runtime).map(|time| time.value),
        realtime_period: cpu.and_then(|cpu| cpu.realtime_period).map(|time| time.value),
    };
    changes.device_rules = given.devices.iter().map(device_rule).collect();
    // A class is a group of the kernel's; the empty one takes the container out of its own.
    match given.rdt_class.as_ref().map(|class| class.value.as_str()) {
        Some("") => changes.rdt = RdtChange { remove: true, ..RdtChange::default() },
        Some(class) if changes.rdt.clos_id.is_none() => {
            changes.rdt.clos_id = Some(class.to_owned());
        }
        _ => {}
    }
}

fn entry(key: &str, value: String) -> (String, Option<String>) {
    match key.strip_prefix(REMOVED) {
        Some(key) => (key.to_owned(), None),
        None => (key.to_owned(), Some(value)),
    }
}

fn hooks(given: &nri::Hooks) -> Hooks {
    let all = |given: &[nri::Hook]| given.iter().map(hook).collect();
    Hooks {
        prestart: all(&given.prestart),
        create_runtime: all(&given.create_runtime),
        create_container: all(&given.create_container),
        start_container: all(&given.start_container),
        poststart: all(&given.poststart),
        poststop: all(&given.poststop),
    }
}

fn hook(given: &nri::Hook) -> Hook {
    Hook {
        path: given.path.clone(),
        args: given.args.clone(),
        env: given.env.clone(),
        // The specification has no other.
        timeout: given.timeout.map(|seconds| seconds.value).filter(|seconds| *seconds > 0),
    }
}

fn mount(given: &nri::Mount) -> MountChange {
    if let Some(destination) = given.destination.strip_prefix(REMOVED) {
        return MountChange { destination: destination.to_owned(), mount: None };
    }
    let mount = OciMount {
        kind: given.r#type.clone(),
        source: given.source.clone(),
        options: given.options.clone(),
    };
    MountChange { destination: given.destination.clone(), mount: Some(mount) }
}

/// As plugins expect it, the container may read and write the device, and make one for blocks.
fn device(given: &nri::LinuxDevice) -> DeviceChange {
    if let Some(path) = given.path.strip_prefix(REMOVED) {
        return DeviceChange { path: path.to_owned(), ..DeviceChange::default() };
    }
    let device = OciDevice {
        kind: given.r#type.clone(),
        major: given.major,
        minor: given.minor,
        file_mode: given.file_mode.map(|mode| mode.value),
        uid: given.uid.map(|id| id.value),
        gid: given.gid.map(|id| id.value),
    };
    let access = if given.r#type == "b" { "rwm" } else { "rw" }.to_owned();
    DeviceChange { path: given.path.clone(), device: Some(device), access }
}

fn device_rule(given: &nri::LinuxDeviceCgroup) -> DeviceRule {
    DeviceRule {
        allow: given.allow,
        kind: given.r#type.clone(),
        major: given.major.map(|number| number.value),
        minor: given.minor.map(|number| number.value),
        access: given.access.clone(),
    }
}

fn rlimit(given: &nri::PosixRlimit) -> Rlimit {
    Rlimit { kind: given.r#type.clone(), hard: given.hard, soft: given.soft }
}

/// The class that is none says nothing.
fn io_priority(given: &nri::LinuxIoPriority) -> Option<IoPriority> {
    let class = given.class();
    let is_stated = class != nri::IoPrioClass::IoprioClassNone;
    is_stated
        .then(|| IoPriority { class: class.as_str_name().to_owned(), priority: given.priority })
}

fn scheduler(given: &nri::LinuxScheduler) -> Scheduler {
    Scheduler {
        policy: given.policy().as_str_name().to_owned(),
        nice: given.nice,
        priority: given.priority,
        flags: given.flags().map(|flag| flag.as_str_name().to_owned()).collect(),
        runtime: given.runtime,
        deadline: given.deadline,
        period: given.period,
    }
}

fn seccomp(given: &nri::LinuxSeccomp) -> Seccomp {
    Seccomp {
        default_action: given.default_action.clone(),
        default_errno_ret: given.default_errno.map(|number| number.value),
        architectures: given.architectures.clone(),
        flags: given.flags.clone(),
        listener_path: given.listener_path.clone(),
        listener_metadata: given.listener_metadata.clone(),
        syscalls: given.syscalls.iter().map(syscall).collect(),
    }
}

fn syscall(given: &nri::LinuxSyscall) -> SyscallRule {
    let argument = |given: &nri::LinuxSeccompArg| SyscallArgument {
        index: given.index,
        value: given.value,
        value_two: given.value_two,
        op: given.op.clone(),
    };
    SyscallRule {
        names: given.names.clone(),
        action: given.action.clone(),
        errno_ret: given.errno_ret.map(|number| number.value),
        args: given.args.iter().map(argument).collect(),
    }
}

fn rdt(given: &nri::LinuxRdt) -> RdtChange {
    RdtChange {
        remove: given.remove,
        clos_id: given.clos_id.as_ref().map(|id| id.value.clone()),
        schemata: given.schemata.as_ref().map(|lines| lines.value.clone()),
        enable_monitoring: given.enable_monitoring.map(|on| on.value),
        ..RdtChange::default()
    }
}

fn memory_policy(given: &nri::LinuxMemoryPolicy) -> MemoryPolicy {
    MemoryPolicy {
        mode: given.mode().as_str_name().to_owned(),
        nodes: given.nodes.clone(),
        flags: given.flags().map(|flag| flag.as_str_name().to_owned()).collect(),
    }
}

/// More changes of a container than a plugin has use for.
const MOST_CHANGES: usize = 4096;
