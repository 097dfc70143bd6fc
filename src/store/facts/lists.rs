//! What the engine's lists say of objects: shown until a look has answered, and again when looks fail.

use std::sync::Arc;

use super::{Facts, Seen};
use crate::{
    model::{
        engine::ListedContainer,
        id::{ContainerId, SandboxId},
        record::{ContainerRecord, ImageRecord, Listed, Observed, Process, SandboxRecord},
    },
    store::look::{Target, Ticket},
};

/// What a list said of a container that is shown in another state, and when that list began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contradiction {
    listed: Listed,
    since: Ticket,
}

impl Facts {
    /// Docker lists these containers; of some nothing else may be known for a while. What was not
    /// known is shown as listed; where the list contradicts what is shown, the look it asks for
    /// decides, and if that fails, the list.
    pub(in crate::store) fn list(&mut self, listed: &[ListedContainer], at: Ticket) {
        self.listed_at = at;
        let since = self.list_since.take().unwrap_or(at);
        self.contradictions.clear();
        // A stranger leaves a ticket in `gone` too, for he may have been shown before.
        let gone = |id: &str| self.gone.contains_key(id) && !self.hidden.knows(id);
        let there: Vec<&ListedContainer> = listed.iter().filter(|one| !gone(&one.id)).collect();
        self.changed.images |= self.hidden.list(&there, since, at);
        for one in listed {
            match one.observed.as_deref() {
                _ if self.is_late(&one.id, since) => {}
                Some(Observed::Sandbox(record)) => self.list_sandbox(record, since),
                Some(Observed::Container(record)) => self.list_workload(record, since),
                Some(Observed::Foreign(_)) | None => {}
            }
        }
    }

    /// Docker lists these images; what is not known yet is shown as listed.
    pub(in crate::store) fn list_images(&mut self, listed: &[ImageRecord], since: Ticket) {
        for record in listed {
            if !self.images.contains_key(&record.id) && !self.is_late(record.id.as_str(), since) {
                // What else there is to look at is in the list, too.
                self.see_image(record.clone(), since);
            }
        }
    }

    fn list_sandbox(&mut self, record: &SandboxRecord, since: Ticket) {
        let known = self.sandboxes.get(&record.id).and_then(|pod| pod.engine.as_ref());
        let shown = known.and_then(|(known, _)| known.process.clone());
        if self.is_news(record.id.as_str(), shown.as_ref(), record.process.as_ref(), since) {
            self.change(&record.id, |pod| pod.engine = Some((record.clone(), since)));
        }
    }

    fn list_workload(&mut self, record: &ContainerRecord, since: Ticket) {
        let shown = self.containers.get(&record.id).map(|known| known.record.process.clone());
        if self.is_news(record.id.as_str(), shown.as_ref(), Some(&record.process), since) {
            let seen = Seen { record: Arc::new(record.clone()), at: since };
            self.containers.insert(record.id.clone(), seen);
            self.changed.containers = true;
        }
    }

    /// Whether the list says more than is known. What a look saw is kept for the next look to
    /// correct: it may have to wait until the container's log is complete.
    fn is_news(
        &mut self,
        id: &str,
        shown: Option<&Process>,
        listed: Option<&Process>,
        since: Ticket,
    ) -> bool {
        let Some(shown) = shown else { return true };
        let Some(Process::Listed(listed)) = listed else { return false };
        if !shown.contradicts(*listed) {
            return false;
        }
        if !shown.is_listed() {
            let contradiction = Contradiction { listed: *listed, since };
            self.contradictions.insert(id.to_owned(), contradiction);
        }
        shown.is_listed()
    }

    /// A look at a container failed: if a list that began before it contradicted what is shown, the
    /// list is right.
    pub(in crate::store) fn miss(&mut self, target: &Target, at: Ticket) {
        let Target::Container(id) = target else { return };
        let asked = self.contradictions.get(id).is_some_and(|one| at > one.since);
        let contradiction = asked.then(|| self.contradictions.remove(id)).flatten();
        let Some(Contradiction { listed, since }) = contradiction else { return };
        let process = Process::Listed(listed);
        if let Ok(id) = ContainerId::try_from(id.as_str())
            && let Some(known) = self.containers.get_mut(&id).filter(|known| known.at <= since)
        {
            Arc::make_mut(&mut known.record).process = process.clone();
            self.changed.containers = true;
        }
        if let Ok(id) = SandboxId::try_from(id.as_str())
            && self.sandboxes.contains_key(&id)
        {
            self.change(&id, |pod| {
                if let Some((record, _)) = pod.engine.as_mut().filter(|(_, seen)| *seen <= since) {
                    record.process = Some(process);
                }
            });
        }
    }
}
