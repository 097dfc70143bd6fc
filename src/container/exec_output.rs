//! The output that ExecSync keeps of its commands, and the memory that all these commands share for their output.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{exec::follow::Sink, model::stream::Source};

/// The memory for the output of all commands of ExecSync, shared by all clones of this value.
///
/// While a command waits for memory, dockbridge does not read its output, so the command's process blocks once the pipe
/// is full. A command with a permit of `places` never waits for memory, so commands cannot block each other in a cycle.
#[derive(Clone, Debug)]
pub(super) struct OutputMemory {
    /// The free bytes for commands with up to [`LARGE_OUTPUT_BYTES`] bytes of output.
    shared: Arc<Semaphore>,
    /// The permits for commands with more than [`LARGE_OUTPUT_BYTES`] bytes of output, or for which `shared` has too
    /// few free bytes.
    places: Arc<Semaphore>,
}

/// The kept output of one command.
#[derive(Debug)]
pub(super) struct CollectedOutput {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// How many bytes of output were not kept.
    pub(super) dropped: usize,
    memory: OutputMemory,
    /// True while the command waits for memory.
    waits: Arc<AtomicBool>,
    share: Option<OwnedSemaphorePermit>,
    place: Option<OwnedSemaphorePermit>,
}

impl Default for OutputMemory {
    fn default() -> Self {
        let [shared, places] =
            [SHARED_BYTES, LARGE_OUTPUTS].map(|permits| Arc::new(Semaphore::new(permits)));
        Self { shared, places }
    }
}

impl OutputMemory {
    pub(super) fn taken(&self) -> usize {
        SHARED_BYTES - self.shared.available_permits()
            + MOST_OUTPUT * (LARGE_OUTPUTS - self.places.available_permits())
    }
}

impl CollectedOutput {
    pub(super) const fn new(memory: OutputMemory, waits: Arc<AtomicBool>) -> Self {
        Self {
            stdout: Vec::new(),
            stderr: Vec::new(),
            dropped: 0,
            memory,
            waits,
            share: None,
            place: None,
        }
    }

    /// Reserves memory for `length` more bytes, and if necessary waits until it is free. The first [`UNCOUNTED_BYTES`]
    /// bytes of a command's output need no reservation.
    async fn make_room(&mut self, length: usize) {
        let total = self.stdout.len() + self.stderr.len() + length;
        let share = self.share.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if self.place.is_some() || total <= UNCOUNTED_BYTES + share {
            return;
        }
        self.waits.store(true, Ordering::Relaxed);
        let step = u32::try_from(RESERVATION_STEP.max(length)).unwrap_or(u32::MAX);
        tokio::select! {
            biased;
            Ok(more) = Arc::clone(&self.memory.shared).acquire_many_owned(step), if total <= LARGE_OUTPUT_BYTES => {
                match &mut self.share {
                    Some(share) => share.merge(more),
                    None => self.share = Some(more),
                }
            }
            place = Arc::clone(&self.memory.places).acquire_owned() => {
                (self.place, self.share) = (place.ok(), None);
            }
        }
        self.waits.store(false, Ordering::Relaxed);
    }
}

impl Sink for CollectedOutput {
    async fn take(&mut self, source: Source, bytes: Bytes) {
        let (length, other) = match source {
            Source::Stdout => (self.stdout.len(), self.stderr.len()),
            Source::Stderr => (self.stderr.len(), self.stdout.len()),
        };
        let space = (MOST_OUTPUT - other.max(LEAST_OUTPUT)).saturating_sub(length);
        let kept = bytes.get(..space).unwrap_or(&bytes);
        self.dropped += bytes.len() - kept.len();
        self.make_room(kept.len()).await;
        let into = match source {
            Source::Stdout => &mut self.stdout,
            Source::Stderr => &mut self.stderr,
        };
        if into.capacity() - into.len() < kept.len() {
            into.reserve_exact(kept.len().max(into.len() / 4));
        }
        into.extend_from_slice(kept);
    }
}

/// How many bytes of stdout and stderr together are kept at most. kubelet accepts answers of up to 16 MiB.
pub const MOST_OUTPUT: usize = 16 * 1024 * 1024 - 64 * 1024;

/// How many bytes of stdout and of stderr are always kept, however much output the other stream has.
const LEAST_OUTPUT: usize = 1024 * 1024;

const LARGE_OUTPUTS: usize = 2;

/// How many bytes all commands without one of the [`LARGE_OUTPUTS`] permits may keep together, not counting the first
/// [`UNCOUNTED_BYTES`] bytes of each command.
const SHARED_BYTES: usize = 16 * 1024 * 1024;

/// A command with more than this many bytes of output needs one of the [`LARGE_OUTPUTS`] permits.
const LARGE_OUTPUT_BYTES: usize = 1024 * 1024;

/// How many bytes of each command's output are not counted. Few probes print more than this many bytes.
const UNCOUNTED_BYTES: usize = 32 * 1024;

/// How many bytes of memory a command reserves at a time, at least.
const RESERVATION_STEP: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn filled(memory: &OutputMemory, bytes: usize) -> CollectedOutput {
        let mut output = CollectedOutput::new(memory.clone(), Arc::default());
        fill(&mut output, bytes).await;
        output
    }

    async fn fill(output: &mut CollectedOutput, bytes: usize) {
        for _ in 0..bytes / UNCOUNTED_BYTES {
            output.take(Source::Stdout, Bytes::from_static(&[1; UNCOUNTED_BYTES])).await;
        }
    }

    #[tokio::test]
    async fn commands_wait_for_memory_and_never_for_each_other() {
        let memory = OutputMemory::default();
        let [first, second] =
            [filled(&memory, 2 * MOST_OUTPUT).await, filled(&memory, 2 * LARGE_OUTPUT_BYTES).await];
        assert_eq!(first.stdout.len(), MOST_OUTPUT - LEAST_OUTPUT);
        assert!(first.dropped > 0);
        assert_eq!(memory.taken(), LARGE_OUTPUTS * MOST_OUTPUT);
        let mut third = Box::pin(filled(&memory, 2 * LARGE_OUTPUT_BYTES));
        assert!(timeout(Duration::from_millis(100), &mut third).await.is_err());
        let others =
            [filled(&memory, LARGE_OUTPUT_BYTES).await, filled(&memory, UNCOUNTED_BYTES).await];
        assert!(memory.taken() <= LARGE_OUTPUTS * MOST_OUTPUT + 2 * LARGE_OUTPUT_BYTES);
        drop(first);
        assert_eq!(third.await.stdout.len(), 2 * LARGE_OUTPUT_BYTES);
        drop((second, others));
        assert_eq!(memory.taken(), 0);
    }
}
