//! Records which plugin has set which field of a container, or which entry of a field. [`super::merge`] has the rules.

use std::collections::BTreeMap;

use crate::{
    error::Failure,
    translate::limits::{self, nri::Claim},
    wire::nri::{self, Field, REMOVED},
};

/// For each container of an NRI event, the plugins that own its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owners(nri::OwningPlugins);

impl Owners {
    /// The owners as dockbridge sends them to validating plugins.
    pub const fn wire(&self) -> &nri::OwningPlugins {
        &self.0
    }

    /// The fields of a container that plugins own, as NRI spells them, each with its plugin.
    pub fn of(&self, container: &str) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let Some(fields) = self.0.owners.get(container) else { return all };
        let mut add = |field: i32, key: &str, owner: &str| {
            let owner = owner.strip_prefix(REMOVED).unwrap_or(owner);
            all.insert(name(field, key), owner.to_owned());
        };
        for (field, owner) in &fields.simple {
            add(*field, "", owner);
        }
        for (field, keys) in &fields.compound {
            for (key, owner) in &keys.owners {
                add(*field, key, owner);
            }
        }
        all
    }

    pub(in crate::translate) const fn claims<'a>(
        &'a mut self,
        container: &'a str,
        plugin: &'a str,
    ) -> Claims<'a> {
        Claims { owners: self, container, plugin }
    }
}

/// Records the fields of one container that one plugin sets.
pub struct Claims<'a> {
    owners: &'a mut Owners,
    container: &'a str,
    plugin: &'a str,
}

impl Claim for Claims<'_> {
    /// A plugin may set a field that it has removed itself.
    fn claim(&mut self, field: Field, key: &str) -> Result<(), Failure> {
        let owner = self.owner(field, key);
        let other = owner.strip_prefix(REMOVED).unwrap_or(owner);
        if !other.is_empty() && other != self.plugin {
            let (plugin, field, container) = (self.plugin, name(field.into(), key), self.container);
            return Err(Failure::unmet(format!(
                "NRI plugins {other} and {plugin} both change {field} of container {container}"
            )));
        }
        self.own(field, key, self.plugin.to_owned());
        Ok(())
    }
}

impl Claims<'_> {
    /// Records that the plugin removes a field, even if another plugin has set it.
    pub(super) fn clear(&mut self, field: Field, key: &str) {
        self.own(field, key, format!("{REMOVED}{}", self.plugin));
    }

    /// Adds the plugin to the owners of a list to which several plugins may add.
    pub(super) fn share(&mut self, field: Field) {
        let owner = match self.owner(field, "") {
            "" => self.plugin.to_owned(),
            others => format!("{others},{}", self.plugin),
        };
        self.own(field, "", owner);
    }

    fn owner(&self, field: Field, key: &str) -> &str {
        let field: i32 = field.into();
        let owner = self.owners.0.owners.get(self.container).and_then(|fields| match key {
            "" => fields.simple.get(&field),
            _ => fields.compound.get(&field)?.owners.get(key),
        });
        owner.map(String::as_str).unwrap_or_default()
    }

    fn own(&mut self, field: Field, key: &str, owner: String) {
        let fields = self.owners.0.owners.entry(self.container.to_owned()).or_default();
        match key {
            "" => fields.simple.insert(field.into(), owner),
            _ => {
                let keys = fields.compound.entry(field.into()).or_default();
                keys.owners.insert(key.to_owned(), owner)
            }
        };
    }
}

fn name(field: i32, key: &str) -> String {
    let name = Field::try_from(field).map_or("?", |field| match field {
        Field::Annotations => "annotations",
        Field::Mounts => "mounts",
        Field::OciHooks => "hooks",
        Field::Devices => "linux.devices",
        Field::CdiDevices => "CDI_devices",
        Field::Env => "env",
        Field::Args => "args",
        Field::CgroupsPath => "linux.cgroups_path",
        Field::OomScoreAdj => "linux.oom_score_adj",
        Field::Rlimits => "rlimits",
        Field::IoPriority => "linux.io_priority",
        Field::SeccompPolicy => "linux.seccomp_policy",
        Field::Namespace => "linux.namespaces",
        Field::Sysctl => "linux.sysctl",
        Field::LinuxNetDevices => "linux.net_devices",
        Field::LinuxSched => "linux.scheduler",
        Field::RdtClosId => "linux.rdt.clos_id",
        Field::RdtSchemata => "linux.rdt.schemata",
        Field::RdtEnableMonitoring => "linux.rdt.enable_monitoring",
        Field::MemoryPolicy => "linux.memory_policy",
        limit => limits::nri::name(limit),
    });
    if key.is_empty() { name.to_owned() } else { format!("{name}[{key}]") }
}
