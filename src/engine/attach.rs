//! Docker's attach API: the streams of a container's main process.

use hyper::Method;

use super::{
    address,
    client::Engine,
    error::{EngineError, Subject},
    exec::DETACH_KEYS,
    hijack::Hijacked,
};
use crate::model::stream::{Streams, TerminalSize};

impl Engine {
    /// Connects to the main process. Output from before this is not sent. `streams.tty` must be that of the
    /// container, because it determines the framing of the output.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] if there is no such container, [`EngineError::Conflict`] if it does not
    /// run or is paused.
    pub async fn attach(&self, container: &str, streams: Streams) -> Result<Hijacked, EngineError> {
        let flag = |on: bool| if on { "1" } else { "0" };
        let query = [
            ("stream", "1"),
            ("logs", "0"),
            ("stdin", flag(streams.stdin)),
            ("stdout", flag(streams.stdout)),
            ("stderr", flag(streams.stderr)),
            ("detachKeys", DETACH_KEYS),
        ];
        let (subject, tail) = (subject(container), address::with_query("/attach", &query));
        let attach = self.request(Method::POST, "attach to", subject, &tail)?;
        self.hijack(attach, streams.tty).await
    }

    /// Resizes the main process's terminal.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] if there is no such container, [`EngineError::Conflict`] if it does not run.
    pub async fn resize_container(
        &self,
        container: &str,
        size: TerminalSize,
    ) -> Result<(), EngineError> {
        let (subject, tail) = (subject(container), address::with_size("/resize", size));
        self.done(self.request(Method::POST, "resize", subject, &tail)?.repeatable()).await
    }
}

fn subject(container: &str) -> Subject {
    Subject::Container(container.to_owned())
}
