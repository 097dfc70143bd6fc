//! Restores the pins of images that containers mount. `docker system prune` first removes every container
//! that is not running, also the pins, and then images without containers. If a pin is created again
//! between these two steps, its image is kept.
//!
//! If an image cannot be restored because it was removed, the pauses between tries get longer, and other
//! images do not wait for it.

use std::{
    collections::{BTreeSet, HashMap},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, sleep, sleep_until};
use tracing::warn;

use super::{directory::needed, service::ImageFiles};
use crate::{
    concurrency::backoff::Backoff, error::chain, model::id::ImageId, store::snapshot::Snapshot,
};

impl ImageFiles {
    /// Restores missing pins and directories; never returns.
    pub async fn restore_volumes(&self) -> Infallible {
        let mut backoffs = Backoffs::default();
        loop {
            backoffs.retain(&missing(&self.store.snapshot()));
            let due = |now: &Arc<Snapshot>| {
                let due: Vec<ImageId> = missing(now)
                    .into_iter()
                    .filter(|image| backoffs.are_due(image, Instant::now()))
                    .collect();
                (!due.is_empty()).then_some(due).zip(now.engine.clone())
            };
            let next = backoffs.next().unwrap_or_else(|| Instant::now() + LONGEST_PAUSE);
            let found = tokio::select! {
                found = self.store.when(due) => found,
                () = sleep_until(next) => continue,
            };
            let Some((images, engine)) = found else {
                // The store has ended, so the process ends soon.
                sleep(LONGEST_PAUSE).await;
                continue;
            };
            for image in images {
                match self.restore(&engine, &image).await {
                    Ok(true) => {
                        warn!(%image, "the container that pins an image was removed; created again");
                    }
                    Ok(false) => {}
                    Err(error) => {
                        let again_in = backoffs.failed(&image, Instant::now());
                        let error = chain(&error);
                        warn!(%image, error, ?again_in, "cannot unpack an image that a container uses; retrying");
                    }
                }
            }
            // Waits until the store has seen the new pins, before one counts as missing again.
            sleep(FIRST_PAUSE).await;
        }
    }
}

/// Images that containers mount and that have no pin.
fn missing(now: &Snapshot) -> BTreeSet<ImageId> {
    needed(now).into_iter().filter(|image| !now.is_used_by_hidden(image)).collect()
}

/// The images that could not be restored, and when to try again.
#[derive(Debug, Default)]
struct Backoffs(HashMap<ImageId, (Backoff, Instant)>);

impl Backoffs {
    fn are_due(&self, image: &ImageId, now: Instant) -> bool {
        self.0.get(image).is_none_or(|(_, until)| *until <= now)
    }

    /// Records a failure; returns the pause until the next try.
    fn failed(&mut self, image: &ImageId, now: Instant) -> Duration {
        let first = || (Backoff::new(FIRST_PAUSE, LONGEST_PAUSE), now);
        let (backoff, until) = self.0.entry(image.clone()).or_insert_with(first);
        let pause = backoff.failed();
        *until = now + pause;
        pause
    }

    fn retain(&mut self, images: &BTreeSet<ImageId>) {
        self.0.retain(|image, _| images.contains(image));
    }

    /// When the first of the pauses ends.
    fn next(&self) -> Option<Instant> {
        self.0.values().map(|(_, until)| *until).min()
    }
}

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    fn image(digit: char) -> ImageId {
        ImageId::try_from(format!("sha256:{}", digit.to_string().repeat(64))).unwrap()
    }

    #[test]
    fn pauses_grow_by_image_and_end_with_the_need() {
        let (mut backoffs, now) = (Backoffs::default(), Instant::now());
        let (a, b) = (image('a'), image('b'));
        let pause: Vec<u64> = (0..11).map(|_| backoffs.failed(&a, now).as_secs()).collect();
        assert_eq!(pause, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert!(!backoffs.are_due(&a, now + Duration::from_secs(299)));
        assert!(backoffs.are_due(&a, now + LONGEST_PAUSE) && backoffs.are_due(&b, now));
        backoffs.failed(&b, now);
        assert_eq!(backoffs.next(), Some(now + FIRST_PAUSE));
        backoffs.retain(&[b].into());
        assert!(backoffs.are_due(&a, now));
        backoffs.retain(&BTreeSet::new());
        assert_eq!(backoffs.next(), None);
    }
}
