//! Reads the merged answer of all NRI plugins about a new container. Some limits become an update of the
//! container, and all other changes except CDI devices become edits of its `config.json`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::error::{At, ParseError};
use crate::{
    error::Failure,
    model::{
        adjustment::Wanted,
        resources::Resources,
        spec_edit::{SpecEdit, without_empty},
    },
    translate::limits,
    wire::nri::{self, REMOVED},
};

/// Reads the merged answer. `owners` has the plugin of each field. Fails if a limit is malformed or out of range,
/// or if a plugin sets a block I/O class.
pub fn adjustment(
    given: &nri::ContainerAdjustment,
    owners: BTreeMap<String, String>,
) -> Result<Wanted, Failure> {
    let mut edits = Vec::new();
    if !given.args.is_empty() {
        edits.push(SpecEdit::set(&["process", "args"], given.args.clone()));
    }
    let variable = |it: &nri::KeyValue| entry(&["process", "env"], &it.key, it.value.as_str());
    edits.extend(given.env.iter().map(variable));
    let annotation =
        |(key, value): (&String, &String)| entry(&["annotations"], key, value.as_str());
    edits.extend(given.annotations.iter().map(annotation));
    for (name, hooks) in given.hooks.iter().flat_map(hooks).filter(|(_, all)| !all.is_empty()) {
        edits.push(SpecEdit::add(&["hooks", name], hooks.iter().map(hook)));
    }
    edits.extend(given.mounts.iter().map(mount));
    edits.extend(given.rlimits.iter().map(|it| {
        let at = ["process", "rlimits", it.r#type.as_str()];
        SpecEdit::set(&at, json!({"hard": it.hard, "soft": it.soft}))
    }));
    let mut resources = Resources::default();
    if let Some(linux) = &given.linux {
        add_linux(&mut edits, linux);
        if let Some(given) = &linux.resources {
            resources = limits::nri::read(given).map_err(impossible)?;
            check_classes(given, &owners)?;
            add_resources(&mut edits, given);
        }
        match linux.oom_score_adj.map(|score| score.value) {
            // The score 0 becomes an edit, because in `Resources` 0 means "not set".
            Some(0) => edits.push(SpecEdit::set(&["process", "oomScoreAdj"], 0)),
            Some(score) => {
                resources.oom_score_adj =
                    limits::cri::oom_score(score).at("oom_score_adj").map_err(impossible)?;
            }
            None => {}
        }
    }
    let cdi_devices = given.cdi_devices.iter().map(|device| device.name.clone()).collect();
    Ok(Wanted { resources, cdi_devices, edits, owners })
}

/// The error if plugins request a limit that is malformed or out of range.
pub fn impossible(error: ParseError) -> Failure {
    Failure::from(error).within("NRI plugins requested a limit that is not valid")
}

/// Fails if a plugin asks for more than `MOST_CHANGES` changes, because applying edits takes quadratic time.
pub fn check_length(plugin: &str, given: &nri::ContainerAdjustment) -> Result<(), Failure> {
    let hooks = given.hooks.iter().flat_map(hooks).map(|(_, all)| all.len()).sum::<usize>();
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
        many if many > MOST_CHANGES => Err(Failure::invalid(format!(
            "NRI plugin {plugin} asks for {many} changes of a container; at most {MOST_CHANGES} are permitted"
        ))),
        _ => Ok(()),
    }
}

/// Refuses block I/O classes, because their names are defined in the configuration of other CRI servers.
fn check_classes(
    given: &nri::LinuxResources,
    owners: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let field = "linux.resources.blockio_class";
    if given.blockio_class.as_ref().is_some_and(|class| !class.value.is_empty()) {
        let plugin = owners.get(field).map(String::as_str).unwrap_or_default();
        let field = format!("NRI plugin {plugin}: {field}");
        return Err(Failure::unsupported(&field, "block I/O classes are not supported"));
    }
    Ok(())
}

fn add_linux(edits: &mut Vec<SpecEdit>, given: &nri::LinuxContainerAdjustment) {
    edits.extend(given.devices.iter().map(device));
    if !given.cgroups_path.is_empty() {
        edits.push(SpecEdit::set(&["linux", "cgroupsPath"], given.cgroups_path.as_str()));
    }
    let sysctl =
        |(key, value): (&String, &String)| entry(&["linux", "sysctl"], key, value.as_str());
    edits.extend(given.sysctl.iter().map(sysctl));
    edits.extend(given.namespaces.iter().map(|it| {
        entry(&["linux", "namespaces"], &it.r#type, without_empty(json!({"path": it.path})))
    }));
    edits.extend(given.net_devices.iter().map(|(key, it)| {
        entry(&["linux", "netDevices"], key, without_empty(json!({"name": it.name})))
    }));
    let whole = [
        (["process", "ioPriority"], given.io_priority.as_ref().and_then(io_priority)),
        (["process", "scheduler"], given.scheduler.as_ref().map(scheduler)),
        (["linux", "seccomp"], given.seccomp_policy.as_ref().map(seccomp)),
        (["linux", "memoryPolicy"], given.memory_policy.as_ref().map(memory_policy)),
    ];
    edits.extend(whole.into_iter().filter_map(|(at, value)| Some(SpecEdit::set(&at, value?))));
    let class = given.resources.as_ref().and_then(|it| it.rdt_class.as_ref());
    let class = class.map(|class| class.value.as_str());
    edits.extend(rdt(given.rdt.as_ref().unwrap_or(&nri::LinuxRdt::default()), class));
}

/// Adds edits for device rules, and for limits that [`Resources`] does not have.
fn add_resources(edits: &mut Vec<SpecEdit>, given: &nri::LinuxResources) {
    let memory = given.memory.unwrap_or_default();
    let cpu = given.cpu.clone().unwrap_or_default();
    let values = json!({
        "memory": without_empty(json!({
            "kernel": memory.kernel.map(|bytes| bytes.value),
            "kernelTCP": memory.kernel_tcp.map(|bytes| bytes.value),
            "swappiness": memory.swappiness.map(|level| level.value),
            "disableOOMKiller": memory.disable_oom_killer.map(|on| on.value),
            "useHierarchy": memory.use_hierarchy.map(|on| on.value),
        })),
        "cpu": without_empty(json!({
            "realtimeRuntime": cpu.realtime_runtime.map(|time| time.value),
            "realtimePeriod": cpu.realtime_period.map(|time| time.value),
        })),
    });
    for (controller, values) in values.as_object().into_iter().flatten() {
        for (key, value) in values.as_object().into_iter().flatten() {
            let at = ["linux", "resources", controller, key];
            edits.push(SpecEdit::set(&at, value.clone()));
        }
    }
    if !given.devices.is_empty() {
        let rules = given.devices.iter().map(device_rule);
        edits.push(SpecEdit::add(&["linux", "resources", "devices"], rules));
    }
}

/// The edit that sets an entry of a list or object, or removes the entry if its key has the removal mark.
fn entry(list: &[&str], key: &str, value: impl Into<Value>) -> SpecEdit {
    match key.strip_prefix(REMOVED) {
        Some(key) => SpecEdit::remove(&[list, &[key]].concat()),
        None => SpecEdit::set(&[list, &[key]].concat(), value),
    }
}

fn hooks(given: &nri::Hooks) -> [(&'static str, &[nri::Hook]); 6] {
    [
        ("prestart", &given.prestart),
        ("createRuntime", &given.create_runtime),
        ("createContainer", &given.create_container),
        ("startContainer", &given.start_container),
        ("poststart", &given.poststart),
        ("poststop", &given.poststop),
    ]
}

fn hook(given: &nri::Hook) -> Value {
    // Leaves out a timeout of 0 or less, because the OCI specification allows only positive timeouts.
    let timeout = given.timeout.map(|seconds| seconds.value).filter(|seconds| *seconds > 0);
    without_empty(
        json!({"path": given.path, "args": given.args, "env": given.env, "timeout": timeout}),
    )
}

fn mount(given: &nri::Mount) -> SpecEdit {
    let nri::Mount { destination, r#type, source, options } = given;
    let mount = without_empty(json!({"type": r#type, "source": source, "options": options}));
    entry(&["mounts"], destination, mount)
}

/// As plugins expect, the container may read and write the device, and `mknod` it if it is a block device.
fn device(given: &nri::LinuxDevice) -> SpecEdit {
    let device = without_empty(json!({
        "type": given.r#type,
        "major": given.major,
        "minor": given.minor,
        "fileMode": given.file_mode.map(|mode| mode.value),
        "uid": given.uid.map(|id| id.value),
        "gid": given.gid.map(|id| id.value),
        "access": if given.r#type == "b" { "rwm" } else { "rw" },
    }));
    entry(&["linux", "devices"], &given.path, device)
}

fn device_rule(given: &nri::LinuxDeviceCgroup) -> Value {
    without_empty(json!({
        "allow": given.allow,
        "type": given.r#type,
        "major": given.major.map(|number| number.value),
        "minor": given.minor.map(|number| number.value),
        "access": given.access,
    }))
}

/// The I/O priority. `None` if the plugin sets no class.
fn io_priority(given: &nri::LinuxIoPriority) -> Option<Value> {
    let class = given.class();
    let is_stated = class != nri::IoPrioClass::IoprioClassNone;
    is_stated.then(|| json!({"class": class.as_str_name(), "priority": given.priority}))
}

fn scheduler(given: &nri::LinuxScheduler) -> Value {
    without_empty(json!({
        "policy": given.policy().as_str_name(),
        "nice": set(given.nice),
        "priority": set(given.priority),
        "flags": given.flags().map(|flag| flag.as_str_name()).collect::<Vec<_>>(),
        "runtime": set(given.runtime),
        "deadline": set(given.deadline),
        "period": set(given.period),
    }))
}

fn seccomp(given: &nri::LinuxSeccomp) -> Value {
    without_empty(json!({
        "defaultAction": given.default_action,
        "defaultErrnoRet": given.default_errno.map(|number| number.value),
        "architectures": given.architectures,
        "flags": given.flags,
        "listenerPath": given.listener_path,
        "listenerMetadata": given.listener_metadata,
        "syscalls": given.syscalls.iter().map(syscall).collect::<Vec<_>>(),
    }))
}

fn syscall(given: &nri::LinuxSyscall) -> Value {
    let argument = |given: &nri::LinuxSeccompArg| {
        without_empty(json!({
            "index": given.index,
            "value": given.value,
            "valueTwo": set(given.value_two),
            "op": given.op,
        }))
    };
    without_empty(json!({
        "names": given.names,
        "action": given.action,
        "errnoRet": given.errno_ret.map(|number| number.value),
        "args": given.args.iter().map(argument).collect::<Vec<_>>(),
    }))
}

/// Edits for Intel RDT. A class names a resctrl group. An empty class removes all RDT settings.
fn rdt(given: &nri::LinuxRdt, class: Option<&str>) -> Vec<SpecEdit> {
    let at = ["linux", "intelRdt"];
    if class == Some("") {
        return vec![SpecEdit::remove(&at)];
    }
    let values = [
        ("closID", given.clos_id.as_ref().map(|id| id.value.as_str()).or(class).map(Value::from)),
        ("schemata", given.schemata.as_ref().map(|lines| json!(lines.value))),
        ("enableMonitoring", given.enable_monitoring.map(|on| json!(on.value))),
    ];
    let values = values.into_iter().filter_map(|(key, value)| Some((key, value?)));
    let [linux, rdt] = at;
    let set = values.map(|(key, value)| SpecEdit::set(&[linux, rdt, key], value));
    given.remove.then(|| SpecEdit::remove(&at)).into_iter().chain(set).collect()
}

fn memory_policy(given: &nri::LinuxMemoryPolicy) -> Value {
    without_empty(json!({
        "mode": given.mode().as_str_name(),
        "nodes": given.nodes,
        "flags": given.flags().map(|flag| flag.as_str_name()).collect::<Vec<_>>(),
    }))
}

fn set<T: Default + PartialEq>(number: T) -> Option<T> {
    (number != T::default()).then_some(number)
}

const MOST_CHANGES: usize = 4096;
