//! A client of exec and attach for stories, with named streams, over SPDY or WebSocket.

use dockbridge::wire::cri;
use serde_json::Value;

use super::{
    channel::{Reader, Writer},
    cri::Cri,
    failure::{Outcome, ensure, ensure_eq},
    spdy::client::Spdy,
    upgrade::Place,
    websocket::Socket,
};

/// The protocol of an exec or attach client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// SPDY/3.1 with this version of Kubernetes' remote command protocol.
    Spdy(&'static str),
    /// WebSocket with this subprotocol, or with none if the text is empty.
    WebSocket(&'static str),
}

impl Way {
    /// Whether the protocol can close stdin while the other streams continue.
    pub(crate) fn closes_stdin(self) -> bool {
        !matches!(self, Self::WebSocket(protocol) if !protocol.starts_with("v5"))
    }

    /// Whether the error stream has a JSON status with the exit code.
    pub(crate) fn tells_codes(self) -> bool {
        let (Self::Spdy(protocol) | Self::WebSocket(protocol)) = self;
        protocol.starts_with("v4") || protocol.starts_with("v5")
    }
}

/// The protocols of exec and attach that kubelet and crictl use.
pub(crate) const USUAL: [Way; 2] = [SPDY, WEBSOCKET];
/// SPDY with the protocol version that kubelet uses.
pub(crate) const SPDY: Way = Way::Spdy("v4.channel.k8s.io");
/// WebSocket with the protocol version that `crictl exec --transport websocket` uses.
pub(crate) const WEBSOCKET: Way = Way::WebSocket("v5.channel.k8s.io");
/// All protocols of exec and attach.
pub(crate) const ALL: [Way; 10] = [
    SPDY,
    Way::Spdy("v3.channel.k8s.io"),
    Way::Spdy("v2.channel.k8s.io"),
    Way::Spdy("channel.k8s.io"),
    WEBSOCKET,
    Way::WebSocket("v4.channel.k8s.io"),
    Way::WebSocket("v4.base64.channel.k8s.io"),
    Way::WebSocket("channel.k8s.io"),
    Way::WebSocket("base64.channel.k8s.io"),
    Way::WebSocket(""),
];

/// The streams that a session connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Connects stdin, stdout and stderr.
    Pipes,
    /// Connects stdout and stderr.
    Output,
    /// Connects stdin and stdout of a terminal.
    Terminal,
}

impl Wish {
    const fn stdin(self) -> bool {
        matches!(self, Self::Pipes | Self::Terminal)
    }

    const fn tty(self) -> bool {
        matches!(self, Self::Terminal)
    }
}

/// A running exec or attach.
#[derive(Debug)]
pub(crate) struct Session {
    stdin: Option<Writer>,
    pub(crate) stdout: Reader,
    /// Standard error. Over SPDY, this reader ends at once if the session did not request standard error.
    pub(crate) stderr: Reader,
    /// Receives the result of the session from the error stream.
    pub(crate) error: Reader,
    resize: Option<Writer>,
    connection: Connection,
}

#[derive(Debug)]
enum Connection {
    Spdy(Spdy),
    WebSocket(Socket),
}

impl Session {
    /// Runs a command in a container.
    pub(crate) async fn exec(
        cri: &Cri,
        way: Way,
        container: &str,
        command: &[&str],
        wish: Wish,
    ) -> Outcome<Self> {
        let url = cri.exec(&exec_request(container, command, wish)).await?;
        Self::open(way, &Place::of(&url)?, wish).await
    }

    /// Runs a shell line in a container.
    pub(crate) async fn shell(
        cri: &Cri,
        way: Way,
        container: &str,
        line: &str,
        wish: Wish,
    ) -> Outcome<Self> {
        Self::exec(cri, way, container, &["sh", "-c", line], wish).await
    }

    /// Attaches to a container's main process.
    pub(crate) async fn attach(cri: &Cri, way: Way, container: &str, wish: Wish) -> Outcome<Self> {
        let request = cri::AttachRequest {
            container_id: container.to_owned(),
            stdin: wish.stdin(),
            stdout: true,
            stderr: !wish.tty(),
            tty: wish.tty(),
        };
        Self::open(way, &Place::of(&cri.attach(&request).await?)?, wish).await
    }

    /// Connects to the URL that the CRI returned for an exec or attach.
    pub(crate) async fn open(way: Way, place: &Place, wish: Wish) -> Outcome<Self> {
        match way {
            Way::Spdy(protocol) => Self::over_spdy(place, protocol, wish).await,
            Way::WebSocket(protocol) => Self::over_websocket(place, protocol, wish).await,
        }
    }

    async fn over_spdy(place: &Place, protocol: &str, wish: Wish) -> Outcome<Self> {
        let (spdy, chosen) = Spdy::connect(place, &[protocol]).await?;
        ensure_eq!(chosen, protocol);
        let open = async |kind: &str| spdy.open(&[("streamtype", kind)]).await;
        let error = open("error").await?.reader;
        let stdin = if wish.stdin() { Some(open("stdin").await?.writer) } else { None };
        let stdout = open("stdout").await?.reader;
        let stderr = if wish.tty() { ended() } else { open("stderr").await?.reader };
        let resizes = wish.tty() && (protocol.starts_with("v3") || protocol.starts_with("v4"));
        let resize = if resizes { Some(open("resize").await?.writer) } else { None };
        Ok(Self { stdin, stdout, stderr, error, resize, connection: Connection::Spdy(spdy) })
    }

    async fn over_websocket(place: &Place, protocol: &str, wish: Wish) -> Outcome<Self> {
        let (socket, readers) = Socket::connect(place, protocol, 4).await?;
        let mut readers = readers.into_iter().skip(1);
        let mut next = || readers.next().unwrap_or_else(ended);
        Ok(Self {
            stdin: wish.stdin().then(|| socket.writer(0)),
            stdout: next(),
            stderr: next(),
            error: next(),
            resize: wish.tty().then(|| socket.writer(4)),
            connection: Connection::WebSocket(socket),
        })
    }

    /// Sends text to the session's stdin. Does nothing if the session has none.
    pub(crate) async fn send(&self, text: impl AsRef<[u8]> + Send) -> Outcome {
        let Some(stdin) = &self.stdin else { return Ok(()) };
        stdin.send(text.as_ref()).await
    }

    /// Closes the session's stdin. Does nothing if the session has none.
    pub(crate) async fn finish(&self) -> Outcome {
        let Some(stdin) = &self.stdin else { return Ok(()) };
        stdin.finish().await
    }

    /// Takes stdin out of the session, for a task that writes to it.
    pub(crate) fn take_stdin(&mut self) -> Option<Writer> {
        self.stdin.take()
    }

    /// Sends the size of the terminal, if the session has a stream for that.
    pub(crate) async fn resize(&self, width: u16, height: u16) -> Outcome {
        let Some(resize) = &self.resize else { return Ok(()) };
        // kubectl and crictl write each size with Go's encoder, which appends a newline.
        let text = format!("{{\"Width\":{width},\"Height\":{height}}}\n");
        resize.send(text.as_bytes()).await
    }

    /// Checks that dockbridge still answers on the connection.
    pub(crate) async fn ping(&self) -> Outcome {
        match &self.connection {
            Connection::Spdy(spdy) => spdy.ping(1).await,
            Connection::WebSocket(socket) => socket.ping().await,
        }
    }

    /// The session's WebSocket, if the session uses WebSocket.
    pub(crate) const fn socket(&self) -> Option<&Socket> {
        match &self.connection {
            Connection::Spdy(_) => None,
            Connection::WebSocket(socket) => Some(socket),
        }
    }

    /// Reads stdout, stderr and the error stream to their ends.
    pub(crate) async fn collect(&mut self) -> Outcome<Ended> {
        let (stdout, stderr, error) =
            tokio::join!(self.stdout.text(), self.stderr.text(), self.error.text());
        Ok(Ended { stdout: stdout?, stderr: stderr?, error: error? })
    }
}

/// The output and the result of an ended session.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The content of the session's error stream.
    pub(crate) error: String,
}

impl Ended {
    /// The exit code in a `v4` or `v5` error stream. Fails if the content does not have the form that kubectl reads.
    pub(crate) fn code(&self) -> Outcome<i32> {
        let status: Value = serde_json::from_str(&self.error)
            .map_err(|error| super::failure::Failure(format!("{error} in {:?}", self.error)))?;
        if status["status"] == "Success" {
            ensure_eq!(status["metadata"], serde_json::json!({}), "{status}");
            return Ok(0);
        }
        ensure_eq!(status["status"], "Failure", "{status}");
        ensure_eq!(status["reason"], "NonZeroExitCode", "{status}");
        let cause = &status["details"]["causes"][0];
        ensure_eq!(cause["reason"], "ExitCode", "{status}");
        let text = cause["message"].as_str().unwrap_or_default();
        let message = status["message"].as_str().unwrap_or_default();
        ensure!(message.contains("non-zero exit code"), "{status}");
        Ok(text.parse()?)
    }
}

/// An ExecRequest in the form that kubelet sends.
pub(crate) fn exec_request(container: &str, command: &[&str], wish: Wish) -> cri::ExecRequest {
    cri::ExecRequest {
        container_id: container.to_owned(),
        cmd: command.iter().map(|&word| word.to_owned()).collect(),
        tty: wish.tty(),
        stdin: wish.stdin(),
        stdout: true,
        stderr: !wish.tty(),
    }
}

fn ended() -> Reader {
    Reader::new(tokio::sync::mpsc::channel(1).1)
}
