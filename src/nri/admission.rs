//! CreateContainer: plugins are asked about a container that Docker has made and nobody sees yet.

use std::sync::Arc;

use super::{
    creation::Creation,
    error::NriError,
    plugin::{Answer, Subject},
    service::{Nri, Plugins, Shared},
    told::Stage,
};
use crate::{
    model::{record::ContainerRecord, resources::Resources},
    translate::parse::nri::limits,
    wire::nri::{self, Event},
};

/// What plugins want of a new container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admission {
    /// Limits; the default changes none.
    pub limits: Resources,
}

impl Nri {
    /// A container was made and nobody sees it yet.
    ///
    /// # Errors
    /// A plugin refuses it, or wants what cannot be done; those that had agreed were told of its end.
    pub async fn create_container(
        &self,
        creation: Option<&Creation>,
        record: &Arc<ContainerRecord>,
    ) -> Result<Admission, NriError> {
        let Some(shared) = self.asked_about(creation) else { return Ok(Admission::default()) };
        let mut plugins = shared.plugins().await;
        plugins.told.add_container(record, Stage::Alive);
        let admitted = shared.admit(&plugins, record).await;
        if admitted.is_err() {
            shared.remove_container(&mut plugins, record.id.as_str()).await;
        }
        shared.sweep(&mut plugins);
        admitted
    }
}

impl Shared {
    async fn admit(
        self: &Arc<Self>,
        plugins: &Plugins,
        record: &ContainerRecord,
    ) -> Result<Admission, NriError> {
        let Subject { pod, container } = self.of_container(&self.store.snapshot(), record);
        let request = nri::CreateContainerRequest { pod, container };
        let (mut admission, mut others) = (Admission::default(), Vec::new());
        for plugin in &plugins.connected {
            let answer: Answer<nri::CreateContainerResponse> =
                self.ask(plugin, Event::CreateContainer, &request).await;
            let Some(answer) = self.agreed(plugin, Event::CreateContainer, answer)? else {
                continue;
            };
            let name = plugin.full_name();
            if let Some(adjust) = answer.adjust {
                let newer = adjusted(&name, adjust)?;
                admission.limits = admission.limits.updated(&newer);
            }
            others.push((name, answer.update, answer.evict));
        }
        self.require(&plugins.connected)?;
        self.carry_out(others);
        Ok(admission)
    }
}

/// The limits of an adjustment, if there is nothing else in it.
fn adjusted(plugin: &str, adjust: nri::ContainerAdjustment) -> Result<Resources, NriError> {
    let resources = adjust.linux.as_ref().and_then(|linux| linux.resources.clone());
    let rest = nri::ContainerAdjustment {
        linux: adjust
            .linux
            .map(|linux| nri::LinuxContainerAdjustment { resources: None, ..linux })
            .filter(|linux| *linux != nri::LinuxContainerAdjustment::default()),
        ..adjust
    };
    if rest != nri::ContainerAdjustment::default() {
        return Err(NriError::Unsupported {
            plugin: plugin.to_owned(),
            reason: "only limits of a container can be adjusted".to_owned(),
        });
    }
    let read = resources.as_ref().map(limits).transpose();
    Ok(read
        .map_err(|cause| NriError::Limits { plugin: plugin.to_owned(), cause: Arc::new(cause) })?
        .unwrap_or_default())
}
