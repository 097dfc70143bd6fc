//! Keeps what containers need of images for ever: a prune of the engine takes whatever does not run,
//! and then images nobody seems to need. It does so in two steps, and this comes between them, mostly.
//!
//! An image that cannot be kept, because it is gone, is tried again less and less often, and no other
//! waits for it.

use std::{
    collections::{BTreeSet, HashMap},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use super::{folder::needed, room::Rootfs};
use crate::{error::chain, model::id::ImageId, store::snapshot::Snapshot};

impl Rootfs {
    /// Makes again whatever keeps an image for its containers and is removed, for ever.
    pub async fn guard(&self) -> Infallible {
        let mut rests = Rests::default();
        loop {
            rests.keep(&lacking(&self.store.snapshot()));
            let due = |now: &Arc<Snapshot>| {
                let due: Vec<ImageId> = lacking(now)
                    .into_iter()
                    .filter(|image| rests.are_over(image, Instant::now()))
                    .collect();
                (!due.is_empty()).then_some(due).zip(now.engine.clone())
            };
            let next = rests.next().unwrap_or_else(|| Instant::now() + LONGEST_REST);
            let found = tokio::select! {
                found = self.store.when(due) => found,
                () = sleep_until(next) => continue,
            };
            let Some((images, engine)) = found else {
                // The store has ended, and with it all of us.
                sleep(LONGEST_REST).await;
                continue;
            };
            for image in images {
                match self.restore(&engine, &image).await {
                    Ok(true) => {
                        warn!(%image, "the container that pins an image was removed; created again");
                    }
                    Ok(false) => {}
                    Err(error) => {
                        let again_in = rests.failed(&image, Instant::now());
                        let error = chain(&error);
                        warn!(%image, error, ?again_in, "cannot unpack an image that a container uses; retrying");
                    }
                }
            }
            // The store has to see what was made before it says whether something lacks.
            sleep(GUARD_PAUSE).await;
        }
    }
}

/// Images that containers need and nothing keeps.
fn lacking(now: &Snapshot) -> BTreeSet<ImageId> {
    needed(now).into_iter().filter(|image| !now.is_used_by_hidden(image)).collect()
}

/// When images that could not be kept are tried again.
#[derive(Debug, Default)]
struct Rests(HashMap<ImageId, Rest>);

#[derive(Debug)]
struct Rest {
    long: Duration,
    until: Instant,
}

impl Rests {
    fn are_over(&self, image: &ImageId, now: Instant) -> bool {
        self.0.get(image).is_none_or(|rest| rest.until <= now)
    }

    /// Another failure; how long the rest is now.
    fn failed(&mut self, image: &ImageId, now: Instant) -> Duration {
        let before = self.0.get(image).map(|rest| rest.long.saturating_mul(2));
        let long = before.unwrap_or(GUARD_PAUSE).min(LONGEST_REST);
        self.0.insert(image.clone(), Rest { long, until: now + long });
        long
    }

    /// Forgets all but these.
    fn keep(&mut self, images: &BTreeSet<ImageId>) {
        self.0.retain(|image, _| images.contains(image));
    }

    /// When the first rest is over.
    fn next(&self) -> Option<Instant> {
        self.0.values().map(|rest| rest.until).min()
    }
}

const GUARD_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    fn image(digit: char) -> ImageId {
        ImageId::try_from(format!("sha256:{}", digit.to_string().repeat(64))).unwrap()
    }

    #[test]
    fn rests_grow_by_image_and_end_with_the_need() {
        let (mut rests, now) = (Rests::default(), Instant::now());
        let (a, b) = (image('a'), image('b'));
        let long: Vec<u64> = (0..11).map(|_| rests.failed(&a, now).as_secs()).collect();
        assert_eq!(long, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert!(!rests.are_over(&a, now + Duration::from_secs(299)));
        assert!(rests.are_over(&a, now + LONGEST_REST) && rests.are_over(&b, now));
        rests.failed(&b, now);
        assert_eq!(rests.next(), Some(now + GUARD_PAUSE));
        rests.keep(&[b].into());
        assert!(rests.are_over(&a, now));
        rests.keep(&BTreeSet::new());
        assert_eq!(rests.next(), None);
    }
}
