//! A port-forward client for stories: connections to ports, over any protocol.

use super::{
    channel::{Reader, Writer},
    cri::Cri,
    failure::{Outcome, ensure_eq, fail},
    spdy::client::Spdy,
    upgrade::Place,
    websocket::{self, Socket},
};

/// The protocol of a port-forward client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// SPDY whose pairs of streams have a request id.
    Spdy,
    /// SPDY of old clients, whose pairs of streams are identified by their stream ids.
    SpdyWithoutIds,
    /// SPDY inside a WebSocket.
    Tunnel,
    /// WebSocket channels with this subprotocol, or with none if the text is empty.
    WebSocket(&'static str),
}

/// All protocols of port-forward.
pub(crate) const ROUTES: [Route; 6] = [
    Route::Spdy,
    Route::SpdyWithoutIds,
    Route::Tunnel,
    Route::WebSocket("v4.channel.k8s.io"),
    Route::WebSocket("v4.base64.channel.k8s.io"),
    Route::WebSocket(""),
];

/// A port-forward session.
#[derive(Debug)]
pub(crate) struct Forward {
    spdy: Option<Spdy>,
    socket: Option<Socket>,
    channels: Vec<Option<Reader>>,
    ports: Vec<u16>,
    with_ids: bool,
    made: u32,
}

/// One forwarded connection to a port.
#[derive(Debug)]
pub(crate) struct Line {
    /// Receives data from the port.
    pub(crate) reader: Reader,
    /// Sends data to the port.
    pub(crate) writer: Writer,
    /// Receives the errors of the forwarded connection.
    pub(crate) error: Reader,
}

impl Forward {
    /// Calls PortForward for a pod and connects to the URL in the answer.
    pub(crate) async fn to(cri: &Cri, route: Route, sandbox: &str, ports: &[u16]) -> Outcome<Self> {
        let url = cri.port_forward(sandbox, ports).await?;
        Self::open(route, &Place::of(&url)?, ports).await
    }

    /// Connects to the URL of a port-forward.
    pub(crate) async fn open(route: Route, place: &Place, ports: &[u16]) -> Outcome<Self> {
        let mut forward = Self {
            spdy: None,
            socket: None,
            channels: Vec::new(),
            ports: ports.to_vec(),
            with_ids: route != Route::SpdyWithoutIds,
            made: 0,
        };
        match route {
            Route::Spdy | Route::SpdyWithoutIds => {
                let (spdy, chosen) = Spdy::connect(place, &["portforward.k8s.io"]).await?;
                ensure_eq!(chosen, "portforward.k8s.io");
                forward.spdy = Some(spdy);
            }
            Route::Tunnel => forward.spdy = Some(websocket::tunnel(place).await?),
            Route::WebSocket(protocol) => {
                let (socket, readers) = Socket::connect(place, protocol, ports.len() * 2).await?;
                forward.socket = Some(socket);
                forward.channels = readers.into_iter().map(Some).collect();
            }
        }
        Ok(forward)
    }

    /// Opens a forwarded connection to a port. With [`Route::WebSocket`], this is possible only once for each port.
    pub(crate) async fn connect(&mut self, port: u16) -> Outcome<Line> {
        match &self.spdy {
            Some(spdy) => {
                self.made += 1;
                pair(spdy, port, self.with_ids.then_some(self.made)).await
            }
            None => self.channel(port).await,
        }
    }

    /// The session's SPDY connection, which can be inside a WebSocket. `None` with [`Route::WebSocket`].
    pub(crate) const fn spdy(&self) -> Option<&Spdy> {
        self.spdy.as_ref()
    }

    async fn channel(&mut self, port: u16) -> Outcome<Line> {
        let Some(place) = self.ports.iter().position(|wanted| *wanted == port) else {
            fail!("port {port} was not announced");
        };
        let (Some(socket), Some(mut reader), Some(mut error)) =
            (&self.socket, self.channels[place * 2].take(), self.channels[place * 2 + 1].take())
        else {
            fail!("port {port} is connected already");
        };
        for side in [&mut reader, &mut error] {
            let told = side.next().await?.unwrap_or_default();
            ensure_eq!(&told[..], &port.to_le_bytes()[..], "(the port told on its channels)");
        }
        let writer = socket.writer(u8::try_from(place * 2)?);
        Ok(Line { reader, writer, error })
    }
}

/// Opens the two streams of a forwarded connection like kubectl: first the error stream, whose sending side is closed
/// at once.
async fn pair(spdy: &Spdy, port: u16, id: Option<u32>) -> Outcome<Line> {
    let (port, id) = (port.to_string(), id.map(|id| id.to_string()));
    let headers = |kind: &'static str| {
        let mut headers = vec![("streamtype", kind), ("port", port.as_str())];
        headers.extend(id.as_deref().map(|id| ("requestid", id)));
        headers
    };
    let error = spdy.open(&headers("error")).await?;
    error.writer.finish().await?;
    let data = spdy.open(&headers("data")).await?;
    Ok(Line { reader: data.reader, writer: data.writer, error: error.reader })
}
