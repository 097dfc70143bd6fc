//! Reads a log through the engine's logs API if its file cannot be read.
//!
//! A task reads the engine's answer and puts messages into a short queue. The log's poll writes them. A
//! reader handles one answer. When the answer has ended, for any reason, a new reader continues at the same
//! position.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::{
    sync::{
        Notify,
        mpsc::{self, error::TryRecvError},
    },
    task::AbortHandle,
};

use super::{
    api_log::ApiLog, convert::Buffers, entry::LogEntry, error::LogError,
    json_file_tailer::ReadProgress, logged_container::LoggedContainer, position::Position,
};
use crate::engine::{client::Engine, error::EngineError, log_messages::LogMessage};

/// Writes what the engine sends.
#[derive(Debug)]
pub(super) struct ApiReader {
    api_log: ApiLog,
    messages: mpsc::Receiver<Result<LogMessage, EngineError>>,
    /// Messages from the queue that might not be written yet.
    pending: Vec<LogMessage>,
    reader: AbortHandle,
    end: Option<ResponseEnd>,
}

/// How an answer ended.
#[derive(Clone, Debug)]
pub(super) enum ResponseEnd {
    /// Normally: the container or the engine has ended.
    Finished,
    Failed(EngineError),
}

impl ApiReader {
    /// Starts reading. Must be called inside a runtime.
    pub(super) fn start(
        engine: &Engine,
        container: &LoggedContainer,
        position: Option<Position>,
        wake: &Arc<Notify>,
    ) -> Result<Self, LogError> {
        let api_log = ApiLog::resume(container.target.clone(), position)?;
        let (sender, messages) = mpsc::channel(QUEUE);
        let since = api_log.since(Timestamp::now());
        let (container, wake) = (container.clone(), Arc::clone(wake));
        let reader = tokio::spawn(read(engine.clone(), container, since, sender, wake));
        let reader = reader.abort_handle();
        Ok(Self { api_log, messages, pending: Vec::new(), reader, end: None })
    }

    /// Writes the messages that have arrived.
    pub(super) fn step(&mut self, buffers: &mut Buffers) -> Result<ReadProgress, LogError> {
        let has_more = self.gather();
        let entries: Vec<LogEntry<'_>> = self.pending.iter().map(entry).collect();
        self.api_log.take(&entries, buffers)?;
        let bytes = self.pending.iter().map(|message| message.text.len()).sum::<usize>();
        self.pending.clear();
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        Ok(ReadProgress { bytes, has_more })
    }

    pub(super) fn reopen(&mut self) -> Result<(), LogError> {
        self.api_log.reopen()
    }

    pub(super) fn position(&self) -> Option<Position> {
        self.api_log.position()
    }

    /// How the answer ended. None until all of it is written.
    pub(super) fn end(&self) -> Option<&ResponseEnd> {
        self.end.as_ref().filter(|_| self.pending.is_empty())
    }

    /// Takes as many messages from the queue as one poll may write. Returns whether there are more.
    fn gather(&mut self) -> bool {
        let mut size: usize = self.pending.iter().map(|message| message.text.len()).sum();
        while size < POLL_BYTES {
            match self.messages.try_recv() {
                Ok(Ok(message)) => {
                    size += message.text.len();
                    self.pending.push(message);
                }
                Ok(Err(error)) => self.end = Some(ResponseEnd::Failed(error)),
                Err(TryRecvError::Disconnected) => {
                    self.end.get_or_insert(ResponseEnd::Finished);
                    return false;
                }
                Err(TryRecvError::Empty) => return false,
            }
        }
        true
    }
}

impl Drop for ApiReader {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn read(
    engine: Engine,
    container: LoggedContainer,
    since: Option<Timestamp>,
    sender: mpsc::Sender<Result<LogMessage, EngineError>>,
    wake: Arc<Notify>,
) {
    match engine.follow_logs(container.id.as_str(), container.tty, since).await {
        Err(error) => drop(sender.send(Err(error)).await),
        Ok(mut messages) => {
            while let Some(message) = messages.next().await {
                if sender.send(message).await.is_err() {
                    return;
                }
                wake.notify_one();
            }
        }
    }
    // The next poll notices the end of the queue.
    drop(sender);
    wake.notify_one();
}

fn entry(message: &LogMessage) -> LogEntry<'_> {
    LogEntry::new(&message.time, message.source, &message.text)
}

/// How many messages are read ahead of the writer, each of at most about 16 KiB.
const QUEUE: usize = 256;
/// Bytes written in one poll.
const POLL_BYTES: usize = 1 << 20;
