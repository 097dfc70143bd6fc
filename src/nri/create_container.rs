//! CreateContainer: asks plugins about a container that Docker has created and nobody sees yet.

use std::sync::Arc;

use super::{
    container_updates::{ALL_PLUGINS, RequestedUpdates},
    creation::Creation,
    lifecycle::Stage,
    plugin::{Answer, EventSubject, Plugin, method},
    service::{Nri, Plugins, Shared},
};
use crate::{
    error::{Failure, Kind, shortened},
    model::{adjustment::Wanted, record::ContainerRecord},
    translate::{
        nri::merge::Merge,
        parse::adjustment::{adjustment, check_length},
    },
    wire::nri::{self, Event},
};

impl Nri {
    /// Whether a connected plugin may change a new container.
    pub async fn may_adjust(&self) -> bool {
        let Some(shared) = self.connected() else { return false };
        let plugins = shared.plugins().await;
        plugins.connected.iter().any(|plugin| plugin.wants(Event::CreateContainer))
    }

    /// Asks plugins about a container that was created and is not yet visible. Returns their changes. None
    /// if no plugin was asked, or all were asked before.
    ///
    /// # Errors
    /// A plugin rejects the container or requests an impossible change. Plugins that were asked before it
    /// get an event for the container's end.
    pub async fn create_container(
        &self,
        creation: Option<&Creation>,
        record: &Arc<ContainerRecord>,
    ) -> Result<Option<Wanted>, Failure> {
        let Some((shared, mut plugins)) = self.asked_about(creation).await else {
            return Ok(None);
        };
        if plugins.lifecycles.containers.contains_key(record.id.as_str()) {
            return Ok(None);
        }
        plugins.lifecycles.add_container(record, Stage::Created);
        let mut asked = Vec::new();
        let agreed = shared.ask_to_create(&plugins, record, &mut asked).await;
        if agreed.is_err() {
            let others = plugins.connected.split_off(asked.len());
            shared.remove_container(&mut plugins, record.id.as_str()).await;
            plugins.connected.extend(others);
        }
        shared.sweep(&mut plugins);
        agreed.map(Some)
    }
}

impl Shared {
    async fn ask_to_create(
        self: &Arc<Self>,
        plugins: &Plugins,
        record: &ContainerRecord,
        asked: &mut Vec<nri::PluginInstance>,
    ) -> Result<Wanted, Failure> {
        let EventSubject { pod, container } =
            self.container_subject(&self.store.snapshot(), record);
        let original = container.unwrap_or_default();
        let (mut merge, mut evictions) = (Merge::new(original.clone()), Vec::new());
        for plugin in &plugins.connected {
            let container = Some(merge.container());
            let request = nri::CreateContainerRequest { pod: pod.clone(), container };
            let answer: Answer<nri::CreateContainerResponse> =
                self.ask(plugin, Event::CreateContainer, &request).await;
            let (index, name) = (plugin.index.clone(), plugin.name.clone());
            asked.push(nri::PluginInstance { name, index });
            let Some(answer) = self.agreed(plugin, Event::CreateContainer, answer)? else {
                continue;
            };
            if answer.update.iter().any(|update| update.container_id == record.id.as_str()) {
                // A plugin may only adjust a container that is being created.
                return Err(Failure::unmet(format!(
                    "the NRI plugin {} answered CreateContainer with an update of the same container; \
                     it must be an adjustment",
                    plugin.full_name()
                )));
            }
            answer.adjust.iter().try_for_each(|asked| check_length(&plugin.full_name(), asked))?;
            merge.add(&plugin.full_name(), &answer)?;
            evictions.extend(answer.evict);
        }
        self.require(&plugins.connected)?;
        let merged = merge.adjustment();
        self.validate(
            plugins,
            &nri::ValidateContainerAdjustmentRequest {
                pod,
                container: Some(original),
                adjust: Some(merged.clone()),
                update: merge.updates.all(),
                owners: Some(merge.owners.wire().clone()),
                plugins: asked.clone(),
            },
        )
        .await?;
        let wanted = adjustment(&merged, merge.owners.of(record.id.as_str()))?;
        self.carry_out(RequestedUpdates {
            plugin: ALL_PLUGINS.to_owned(),
            updates: merge.updates.all(),
            evictions,
        });
        Ok(wanted)
    }

    /// Asks the validating plugins about the merged changes. If one fails to answer, the container is
    /// rejected.
    async fn validate(
        &self,
        plugins: &Plugins,
        request: &nri::ValidateContainerAdjustmentRequest,
    ) -> Result<(), Failure> {
        let event = Event::ValidateContainerAdjustment;
        for plugin in plugins.connected.iter().filter(|plugin| plugin.wants(event)) {
            let answer: Answer<nri::ValidateContainerAdjustmentResponse> =
                self.ask(plugin, event, request).await;
            match self.agreed(plugin, event, answer)? {
                Some(answer) if answer.reject => {
                    return Err(refused(plugin, event, &shortened(answer.reason)));
                }
                Some(_) => {}
                None => return Err(refused(plugin, event, "it did not answer")),
            }
        }
        Ok(())
    }
}

/// A plugin refuses an event.
pub(super) fn refused(plugin: &Plugin, event: Event, message: &str) -> Failure {
    let (plugin, call) = (plugin.full_name(), method(event));
    Failure::new(Kind::Unknown, format!("the NRI plugin {plugin} refused {call}: {message}"))
}
