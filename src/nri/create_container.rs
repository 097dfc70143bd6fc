//! NRI's CreateContainer: asks plugins about a container that Docker has created and that CRI clients do not see yet.

use std::sync::Arc;

use super::{
    container_updates::ALL_PLUGINS,
    creation::Creation,
    lifecycle::Stage,
    plugin::{EventSubject, Refusal, method},
    service::{LockedPlugins, Nri},
};
use crate::{
    error::{Failure, shortened},
    model::{adjustment::Wanted, record::ContainerRecord},
    translate::{
        nri::merge::Merge,
        parse::adjustment::{adjustment, check_length},
    },
    wire::nri::{self, Event},
};

impl Nri {
    /// Whether a connected plugin subscribes to CreateContainer, so that it may change new containers.
    pub async fn may_adjust(&self) -> bool {
        let Some(locked) = self.lock_plugins().await else { return false };
        locked.plugins.connected.iter().any(|plugin| plugin.wants(Event::CreateContainer))
    }

    /// Returns the plugins' changes for a container that CRI clients do not see yet. `None` if there is no plugin to
    /// ask, or if dockbridge has already asked about the container.
    ///
    /// # Errors
    /// A plugin rejects the container or requests an impossible change, or a required plugin is missing. The
    /// plugins that dockbridge has asked then receive the events StopContainer and RemoveContainer.
    pub async fn create_container(
        &self,
        creation: Option<&Creation>,
        record: &Arc<ContainerRecord>,
    ) -> Result<Option<Wanted>, Failure> {
        let Some(mut locked) = self.lock_to_ask(creation).await else {
            // A required plugin may have disconnected since the creation began.
            self.check_required_plugins().await?;
            return Ok(None);
        };
        let id = record.id.as_str();
        if locked.plugins.containers.stage_of(id).is_some() {
            return Ok(None);
        }
        locked.plugins.containers.add(id, record, Stage::Created);
        let mut asked = Vec::new();
        let outcome = locked.request_adjustment(record, &mut asked).await;
        if outcome.is_err() {
            let others = locked.plugins.connected.split_off(asked.len());
            locked.remove_container(id).await;
            locked.plugins.connected.extend(others);
        }
        outcome.map(Some)
    }
}

impl LockedPlugins<'_> {
    async fn request_adjustment(
        &self,
        record: &ContainerRecord,
        asked: &mut Vec<nri::PluginInstance>,
    ) -> Result<Wanted, Failure> {
        let EventSubject { pod, container } = self.shared.container_subject(record);
        let original = container.unwrap_or_default();
        let (mut merge, mut evictions) = (Merge::new(original.clone()), Vec::new());
        for plugin in &self.plugins.connected {
            let container = Some(merge.container());
            let request = nri::CreateContainerRequest { pod: pod.clone(), container };
            let answer: Result<Option<nri::CreateContainerResponse>, Refusal> =
                plugin.ask(Event::CreateContainer, &request).await;
            let (index, name) = (plugin.index.clone(), plugin.name.clone());
            asked.push(nri::PluginInstance { name, index });
            let Some(answer) = answer? else { continue };
            if answer.update.iter().any(|update| update.container_id == record.id.as_str()) {
                return Err(Failure::unmet(format!(
                    "the NRI plugin {} answered CreateContainer with an update of the same container; the \
                     plugin must send an adjustment",
                    plugin.full_name()
                )));
            }
            answer
                .adjust
                .iter()
                .try_for_each(|adjust| check_length(&plugin.full_name(), adjust))?;
            merge.add(&plugin.full_name(), &answer)?;
            evictions.extend(answer.evict);
        }
        self.check_required_plugins()?;
        let merged = merge.adjustment();
        self.validate(&nri::ValidateContainerAdjustmentRequest {
            pod,
            container: Some(original),
            adjust: Some(merged.clone()),
            update: merge.updates.all(),
            owners: Some(merge.owners.wire().clone()),
            plugins: asked.clone(),
        })
        .await?;
        let wanted = adjustment(&merged, merge.owners.of(record.id.as_str()))?;
        drop(self.shared.carry_out(ALL_PLUGINS.to_owned(), merge.updates.all(), evictions));
        Ok(wanted)
    }

    /// Asks the validating plugins about the merged changes. Fails if a plugin rejects the changes or does not answer.
    async fn validate(
        &self,
        request: &nri::ValidateContainerAdjustmentRequest,
    ) -> Result<(), Failure> {
        let event = Event::ValidateContainerAdjustment;
        for plugin in self.plugins.connected.iter().filter(|plugin| plugin.wants(event)) {
            let answer: Option<nri::ValidateContainerAdjustmentResponse> =
                plugin.ask(event, request).await?;
            let reason = match answer {
                Some(answer) if answer.reject => answer.reason,
                Some(_) => continue,
                None => "the plugin gave no valid answer".to_owned(),
            };
            return Err(plugin.refusal(method(event), shortened(reason)).into());
        }
        Ok(())
    }
}
