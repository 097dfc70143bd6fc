//! Merges the engine's lists of containers and images into the store's records.

use std::{collections::HashSet, sync::Arc};

use super::{Cached, ObjectCache};
use crate::{
    model::{
        engine::ListedContainer,
        id::{ContainerId, ImageId, SandboxId},
        record::{ContainerRecord, ImageRecord, ListedState, Observed, Process, SandboxRecord},
    },
    store::inspect_queue::{Generation, Target},
};

impl ObjectCache {
    /// Merges Docker's list of containers. Unknown containers of pods are shown with the state of the list. If the
    /// list contradicts a record from an inspect, the record stays until the next inspect, and if that inspect fails,
    /// the state in the list replaces the state in the record.
    pub(in crate::store) fn list(&mut self, listed: &[ListedContainer], at: Generation) {
        self.listed_at = at;
        let since = self.list_since.take().unwrap_or(at);
        self.contradictions.clear();
        // `gone` also has foreign containers, which may have been shown as containers of a pod.
        let gone = |id: &str| self.gone.contains_key(id) && !self.hidden.contains(id);
        let present: Vec<&ListedContainer> = listed.iter().filter(|one| !gone(&one.id)).collect();
        self.changed.images |= self.hidden.list(&present, since, at);
        for one in listed {
            match one.observed.as_deref() {
                _ if self.is_late(&one.id, since) => {}
                Some(Observed::Sandbox(record)) => self.list_sandbox(record, since),
                Some(Observed::Container(record)) => self.list_workload(record, since),
                Some(Observed::Foreign(_)) | None => {}
            }
        }
    }

    /// Merges Docker's list of images. Unknown images are shown with the data of the list. Docker does not list an
    /// unnamed image that other images are based on, so such an image is no longer shown.
    pub(in crate::store) fn list_images(&mut self, listed: &[ImageRecord], since: Generation) {
        self.unlisted.retain(|_, at| *at >= since);
        let shown: HashSet<&ImageId> = listed.iter().map(|record| &record.id).collect();
        let unlisted = self.images.values().filter(|known| {
            known.at < since && !known.record.is_named() && !shown.contains(&known.record.id)
        });
        let unlisted: Vec<ImageId> = unlisted.map(|known| known.record.id.clone()).collect();
        for id in unlisted {
            self.image_gone(id.as_str(), since);
        }
        for record in listed {
            if !self.images.contains_key(&record.id) && !self.is_late(record.id.as_str(), since) {
                // The images that `put_image` returns need no extra inspect: a list causes one of each known image.
                self.put_image(record.clone(), since);
            }
        }
    }

    fn list_sandbox(&mut self, record: &SandboxRecord, since: Generation) {
        let known = self.sandboxes.get(&record.id).and_then(|pod| pod.engine.as_ref());
        let shown = known.and_then(|(known, _)| known.process.clone());
        if self.must_replace(record.id.as_str(), shown.as_ref(), record.process.as_ref(), since) {
            self.change(&record.id, |pod| pod.engine = Some((record.clone(), since)));
        }
    }

    fn list_workload(&mut self, record: &ContainerRecord, since: Generation) {
        let shown = self.containers.get(&record.id).map(|known| known.record.process.clone());
        if self.must_replace(record.id.as_str(), shown.as_ref(), Some(&record.process), since) {
            let cached = Cached { record: Arc::new(record.clone()), at: since };
            self.containers.insert(record.id.clone(), cached);
            self.changed.containers = true;
        }
    }

    /// Whether the list replaces the record of a pod or container now: there is no record, or its state is from an
    /// earlier list and the new list contradicts it. A state from an inspect stays until the next inspect, because
    /// that inspect can wait until the container's log is complete.
    fn must_replace(
        &mut self,
        id: &str,
        shown: Option<&Process>,
        listed: Option<&Process>,
        since: Generation,
    ) -> bool {
        let Some(shown) = shown else { return true };
        let Some(Process::Listed(listed)) = listed else { return false };
        if !shown.contradicts(*listed) {
            return false;
        }
        if !shown.is_listed() {
            self.contradictions.insert(id.to_owned(), (*listed, since));
        }
        shown.is_listed()
    }

    /// Handles the failed inspect of a container. If the last list began before the inspect and contradicts the
    /// record, the state in the list replaces the state in the record.
    pub(in crate::store) fn inspect_failed(&mut self, target: &Target, at: Generation) {
        let Target::Container(id) = target else { return };
        let before = |(_, since): &(ListedState, Generation)| *since < at;
        let Some((listed, since)) = self.contradictions.get(id).copied().filter(before) else {
            return;
        };
        self.contradictions.remove(id);
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
                if let Some((record, _)) =
                    pod.engine.as_mut().filter(|(_, known_at)| *known_at <= since)
                {
                    record.process = Some(process);
                }
            });
        }
    }
}
