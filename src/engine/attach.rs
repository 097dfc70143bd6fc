//! Docker's attach API: the streams of a container's main process.

use hyper::Method;

use super::{
    address,
    client::Engine,
    error::{Call, EngineError, Subject},
    exec::DETACH_KEYS,
    hijack::Hijacked,
    request::ApiRequest,
};
use crate::model::stream::{Streams, TerminalSize};

impl Engine {
    /// Connects to the main process, from now on: what it wrote before does not come again.
    /// `streams.tty` must be the container's own, since the output is framed by it.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] without such a container, [`EngineError::Conflict`] when it does
    /// not run or is paused.
    pub async fn attach(&self, container: &str, streams: Streams) -> Result<Hijacked, EngineError> {
        let flag = |on: bool| if on { "1" } else { "0" };
        let target = address::container(container, "/attach").map(|path| {
            let query = [
                ("stream", "1"),
                ("logs", "0"),
                ("stdin", flag(streams.stdin)),
                ("stdout", flag(streams.stdout)),
                ("stderr", flag(streams.stderr)),
                ("detachKeys", DETACH_KEYS),
            ];
            address::with_query(&path, &query)
        });
        self.hijack(self.posting("attach to", container, target)?, streams.tty).await
    }

    /// Resizes the main process's terminal.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] without such a container, [`EngineError::Conflict`] when it does
    /// not run.
    pub async fn resize_container(
        &self,
        container: &str,
        size: TerminalSize,
    ) -> Result<(), EngineError> {
        let target = address::container(container, &address::with_size("/resize", size));
        self.done(self.posting("resize", container, target)?.repeatable()).await
    }

    fn posting(
        &self,
        verb: &'static str,
        container: &str,
        target: Option<String>,
    ) -> Result<ApiRequest, EngineError> {
        let call = Call { verb, subject: Subject::Container(container.to_owned()) };
        ApiRequest::new(call, Method::POST, target, self.timeouts().short)
    }
}
