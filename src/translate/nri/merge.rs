//! Merges the answers of several plugins about a new container, in the order of the plugins.
//!
//! A key that starts with `-` removes an entry. If the answer that removes an entry also sets it, the new value counts,
//! even if another plugin has set the entry. Arguments and RDT have no keys: an empty first argument removes the
//! earlier arguments, and the field `remove` removes RDT. The hooks and cgroup device rules of all plugins are kept. In
//! all other cases, two plugins conflict if they set the same entry, or the same field without entries.

use std::{collections::BTreeMap, mem};

use indexmap::IndexMap;

use super::{
    owners::{Claims, Owners},
    updates::Updates,
};
use crate::{
    error::Failure,
    translate::limits::nri::{Claim, merge_limits},
    wire::nri::{self, Field, REMOVED},
};

/// The plugins' answers merged so far. Entries have the order in which plugins last changed them, and no value if a
/// plugin removed them. A key that an answer repeats keeps its first place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Merge {
    original: nri::Container,
    pub owners: Owners,
    /// The updates of containers in the plugins' answers.
    pub updates: Updates,
    annotations: IndexMap<String, Option<String>>,
    mounts: IndexMap<String, Option<nri::Mount>>,
    env: IndexMap<String, Option<String>>,
    devices: IndexMap<String, Option<nri::LinuxDevice>>,
    namespaces: IndexMap<String, Option<nri::LinuxNamespace>>,
    sysctls: IndexMap<String, Option<String>>,
    net_devices: IndexMap<String, Option<nri::LinuxNetDevice>>,
    rlimits: IndexMap<String, Option<nri::PosixRlimit>>,
    cdi_devices: IndexMap<String, Option<nri::CdiDevice>>,
    /// The merged values of the fields that have no map above.
    whole: nri::ContainerAdjustment,
}

impl Merge {
    /// Starts with a container that no plugin has changed yet.
    pub fn new(container: nri::Container) -> Self {
        Self { original: container, ..Self::default() }
    }

    /// Merges the answer of a plugin. Fails if the answer conflicts with the answer of another plugin, except for an
    /// update with `ignore_failure`.
    pub fn add(
        &mut self,
        plugin: &str,
        answer: &nri::CreateContainerResponse,
    ) -> Result<(), Failure> {
        if let Some(asked) = &answer.adjust {
            let (mut owners, id) = (mem::take(&mut self.owners), self.original.id.clone());
            let added = self.adjust(&mut owners.claims(&id, plugin), asked);
            self.owners = owners;
            added?;
        }
        self.updates.add(&mut self.owners, plugin, &answer.update)
    }

    /// The container with the changes so far, which dockbridge sends to the next plugin.
    pub fn container(&self) -> nri::Container {
        let mut shown = self.original.clone();
        apply_map(&mut shown.annotations, &self.annotations);
        apply(&mut shown.mounts, &self.mounts, |mount| mount.destination.clone());
        apply(&mut shown.rlimits, &self.rlimits, |limit| limit.r#type.clone());
        shown.env.retain(|it| !self.env.contains_key(it.split('=').next().unwrap_or_default()));
        let set = |(name, value): (&String, &Option<String>)| {
            value.as_ref().map(|value| format!("{name}={value}"))
        };
        shown.env.extend(self.env.iter().filter_map(set));
        if !self.whole.args.is_empty() {
            shown.args.clone_from(&self.whole.args);
        }
        shown.cdi_devices.extend(self.cdi_devices.values().flatten().cloned());
        if let Some(hooks) = &self.whole.hooks {
            add_hooks(shown.hooks.get_or_insert_default(), hooks);
        }
        self.apply_linux(shown.linux.get_or_insert_default());
        shown
    }

    /// The merged adjustment of all plugins.
    pub fn adjustment(&self) -> nri::ContainerAdjustment {
        let mut all = self.whole.clone();
        all.annotations = marked_map(&self.annotations);
        all.mounts =
            marked(&self.mounts, |destination| nri::Mount { destination, ..Default::default() });
        let env = self.env.iter().map(|(name, value)| nri::KeyValue {
            key: if value.is_some() { name.clone() } else { format!("{REMOVED}{name}") },
            value: value.clone().unwrap_or_default(),
        });
        all.env = env.collect();
        all.rlimits = self.rlimits.values().flatten().cloned().collect();
        all.cdi_devices = self.cdi_devices.values().flatten().cloned().collect();
        let mut linux = all.linux.take().unwrap_or_default();
        linux.devices =
            marked(&self.devices, |path| nri::LinuxDevice { path, ..Default::default() });
        linux.namespaces =
            marked(&self.namespaces, |r#type| nri::LinuxNamespace { r#type, ..Default::default() });
        linux.sysctl = marked_map(&self.sysctls);
        linux.net_devices = marked_map(&self.net_devices);
        all.linux = (linux != nri::LinuxContainerAdjustment::default()).then_some(linux);
        all
    }

    fn adjust(
        &mut self,
        claims: &mut Claims<'_>,
        asked: &nri::ContainerAdjustment,
    ) -> Result<(), Failure> {
        let annotations = asked.annotations.clone();
        combine(claims, Field::Annotations, &mut self.annotations, annotations)?;
        let mounts = asked.mounts.iter().map(|it| (it.destination.clone(), it.clone()));
        combine(claims, Field::Mounts, &mut self.mounts, mounts)?;
        let env = asked.env.iter().map(|it| (it.key.clone(), it.value.clone()));
        combine(claims, Field::Env, &mut self.env, env)?;
        let rlimits = asked.rlimits.iter().map(|it| (it.r#type.clone(), it.clone()));
        combine(claims, Field::Rlimits, &mut self.rlimits, rlimits)?;
        self.adjust_args(claims, &asked.args)?;
        if let Some(hooks) = asked.hooks.as_ref().filter(|it| **it != nri::Hooks::default()) {
            claims.share(Field::OciHooks);
            add_hooks(self.whole.hooks.get_or_insert_default(), hooks);
        }
        for device in &asked.cdi_devices {
            claims.claim(Field::CdiDevices, &device.name)?;
            self.cdi_devices.insert(device.name.clone(), Some(device.clone()));
        }
        asked.linux.as_ref().map_or(Ok(()), |linux| self.adjust_linux(claims, linux))
    }

    fn adjust_args(&mut self, claims: &mut Claims<'_>, asked: &[String]) -> Result<(), Failure> {
        let Some((first, rest)) = asked.split_first() else { return Ok(()) };
        if first.is_empty() {
            claims.clear(Field::Args, "");
        }
        claims.claim(Field::Args, "")?;
        self.whole.args = if first.is_empty() { rest.to_vec() } else { asked.to_vec() };
        Ok(())
    }

    fn adjust_linux(
        &mut self,
        claims: &mut Claims<'_>,
        asked: &nri::LinuxContainerAdjustment,
    ) -> Result<(), Failure> {
        let devices = asked.devices.iter().map(|it| (it.path.clone(), it.clone()));
        combine(claims, Field::Devices, &mut self.devices, devices)?;
        let namespaces = asked.namespaces.iter().map(|it| (it.r#type.clone(), it.clone()));
        combine(claims, Field::Namespace, &mut self.namespaces, namespaces)?;
        combine(claims, Field::Sysctl, &mut self.sysctls, asked.sysctl.clone())?;
        let net_devices = asked.net_devices.clone();
        combine(claims, Field::LinuxNetDevices, &mut self.net_devices, net_devices)?;
        let over = self.whole.linux.get_or_insert_default();
        if let Some(rdt) = &asked.rdt {
            adjust_rdt(claims, over.rdt.get_or_insert_default(), rdt)?;
        }
        if let Some(resources) = &asked.resources {
            merge_limits(over.resources.get_or_insert_default(), resources, claims)?;
        }
        claims.merge(&mut over.cgroups_path, &asked.cgroups_path, Field::CgroupsPath)?;
        claims.merge(&mut over.oom_score_adj, &asked.oom_score_adj, Field::OomScoreAdj)?;
        claims.merge(&mut over.io_priority, &asked.io_priority, Field::IoPriority)?;
        claims.merge(&mut over.scheduler, &asked.scheduler, Field::LinuxSched)?;
        claims.merge(&mut over.memory_policy, &asked.memory_policy, Field::MemoryPolicy)?;
        claims.merge(&mut over.seccomp_policy, &asked.seccomp_policy, Field::SeccompPolicy)
    }

    fn apply_linux(&self, shown: &mut nri::LinuxContainer) {
        apply(&mut shown.devices, &self.devices, |device| device.path.clone());
        apply(&mut shown.namespaces, &self.namespaces, |namespace| namespace.r#type.clone());
        apply_map(&mut shown.sysctl, &self.sysctls);
        apply_map(&mut shown.net_devices, &self.net_devices);
        let Some(whole) = &self.whole.linux else { return };
        if let Some(resources) = &whole.resources {
            // `add` has already checked for conflicts, so this merge needs no record of owners.
            let mut nobody = Owners::default();
            let over = shown.resources.get_or_insert_default();
            let _ = merge_limits(over, resources, &mut nobody.claims("", ""));
        }
        if !whole.cgroups_path.is_empty() {
            shown.cgroups_path.clone_from(&whole.cgroups_path);
        }
        shown.oom_score_adj = whole.oom_score_adj.or(shown.oom_score_adj);
        shown.io_priority = whole.io_priority.or(shown.io_priority);
        shown.scheduler = whole.scheduler.clone().or(shown.scheduler.take());
        shown.seccomp_policy = whole.seccomp_policy.clone().or(shown.seccomp_policy.take());
        if let Some(rdt) = &whole.rdt {
            let rdt = nri::LinuxRdt { remove: false, ..rdt.clone() };
            shown.rdt = Some(rdt).filter(|rdt| *rdt != nri::LinuxRdt::default());
        }
    }
}

/// Merges the changes that a plugin makes to the entries of a field.
fn combine<T: Clone>(
    claims: &mut Claims<'_>,
    field: Field,
    merged: &mut IndexMap<String, Option<T>>,
    asked: impl IntoIterator<Item = (String, T)>,
) -> Result<(), Failure> {
    let (mut removed, mut set) = (IndexMap::new(), IndexMap::new());
    for (key, value) in asked {
        let Some(key) = key.strip_prefix(REMOVED) else {
            set.insert(key, Some(value));
            continue;
        };
        if matches!(merged.get(key), Some(Some(_))) {
            claims.clear(field, key);
        }
        removed.insert(key.to_owned(), None);
    }
    set.keys().try_for_each(|key| claims.claim(field, key))?;
    // A single pass moves all changed keys to the end, because a pass for each key of a long answer would be slow.
    merged.retain(|key, _| !removed.contains_key(key) && !set.contains_key(key));
    removed.retain(|key, _| !set.contains_key(key));
    merged.extend(removed);
    merged.extend(set);
    Ok(())
}

fn adjust_rdt(
    claims: &mut Claims<'_>,
    over: &mut nri::LinuxRdt,
    asked: &nri::LinuxRdt,
) -> Result<(), Failure> {
    if asked.remove {
        for field in [Field::RdtClosId, Field::RdtSchemata, Field::RdtEnableMonitoring] {
            claims.clear(field, "");
        }
        *over = nri::LinuxRdt { remove: true, ..nri::LinuxRdt::default() };
    }
    claims.merge(&mut over.clos_id, &asked.clos_id, Field::RdtClosId)?;
    claims.merge(&mut over.schemata, &asked.schemata, Field::RdtSchemata)?;
    let monitoring = &asked.enable_monitoring;
    claims.merge(&mut over.enable_monitoring, monitoring, Field::RdtEnableMonitoring)
}

fn add_hooks(hooks: &mut nri::Hooks, added: &nri::Hooks) {
    hooks.prestart.extend_from_slice(&added.prestart);
    hooks.create_runtime.extend_from_slice(&added.create_runtime);
    hooks.create_container.extend_from_slice(&added.create_container);
    hooks.start_container.extend_from_slice(&added.start_container);
    hooks.poststart.extend_from_slice(&added.poststart);
    hooks.poststop.extend_from_slice(&added.poststop);
}

fn apply<T: Clone>(
    list: &mut Vec<T>,
    entries: &IndexMap<String, Option<T>>,
    key_of: impl Fn(&T) -> String,
) {
    list.retain(|known| !entries.contains_key(&key_of(known)));
    list.extend(entries.values().flatten().cloned());
}

fn apply_map<T: Clone>(map: &mut BTreeMap<String, T>, entries: &IndexMap<String, Option<T>>) {
    for (key, value) in entries {
        match value {
            Some(value) => drop(map.insert(key.clone(), value.clone())),
            None => drop(map.remove(key)),
        }
    }
}

fn marked<T: Clone>(
    entries: &IndexMap<String, Option<T>>,
    removal: impl Fn(String) -> T,
) -> Vec<T> {
    let one = |(key, value): (&String, &Option<T>)| {
        value.clone().unwrap_or_else(|| removal(format!("{REMOVED}{key}")))
    };
    entries.iter().map(one).collect()
}

fn marked_map<T: Clone + Default>(entries: &IndexMap<String, Option<T>>) -> BTreeMap<String, T> {
    let one = |(key, value): (&String, &Option<T>)| match value {
        Some(value) => (key.clone(), value.clone()),
        None => (format!("{REMOVED}{key}"), T::default()),
    };
    entries.iter().map(one).collect()
}
