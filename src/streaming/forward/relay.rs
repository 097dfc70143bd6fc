//! Copies bytes between a client and a connection in the pod. Each direction of the copy can end before the other.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::BytesMut;
use tokio::{
    io::AsyncWriteExt,
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Mutex,
    time::timeout,
};
use tracing::debug;

use crate::streaming::{
    channel::{Reader, Writer},
    client_connection::{IDLE_TIMEOUT, unchanged},
    inbox::{LARGEST_PIECE, LAST_INPUT},
};

/// How the direction from the pod to the client ended.
enum Down {
    /// The pod has ended its direction and sent all data.
    Ended,
    /// The client no longer accepts data.
    Unwanted,
    Broken(io::Error),
}

/// Copies until both directions have ended (over a WebSocket, until the pod's has ended), the client has disconnected
/// or reset the data stream, or the connection to the pod has broken. If the client disconnects, delivers the data that
/// the client has sent, for at most [`LAST_INPUT`].
///
/// Over SPDY, ends the error stream as soon as the pod has sent all data, because older clients wait for this before
/// they end their own direction. Once the pod has sent all data, a forwarded SPDY connection that delivers no data to
/// the pod for [`IDLE_TIMEOUT`] ends, even if other streams or pings keep the client's connection busy.
///
/// If the connection to the pod breaks, for example by a TCP reset, dockbridge sends no text on the error stream,
/// because the text would make kubectl end the whole port-forward.
pub(super) async fn run(
    socket: TcpStream,
    (reader, writer): (Reader, &mut Writer),
    error: &mut Writer,
    output_lock: &Mutex<()>,
) {
    let (from_pod, to_pod) = socket.into_split();
    let sent = AtomicU64::new(0);
    let up = up(reader, to_pod, &sent);
    tokio::pin!(up);
    let mut client_has_ended = false;
    let down = {
        let down = down(from_pod, writer, output_lock);
        tokio::pin!(down);
        loop {
            tokio::select! {
                end = &mut down => break end,
                () = &mut up, if !client_has_ended => client_has_ended = true,
            }
        }
    };
    match down {
        Down::Unwanted => {
            if !client_has_ended {
                let _ = timeout(LAST_INPUT, up).await;
            }
            return;
        }
        Down::Broken(reason) => {
            debug!(%reason, "a forwarded connection broke in the pod");
            // The broken connection in the pod also accepts no more data from the client.
            client_has_ended = true;
        }
        Down::Ended => {}
    }
    let _ = writer.finish().await;
    let _ = error.finish().await;
    // Only a SPDY client can end its own direction and still receive.
    if !client_has_ended && matches!(writer, Writer::Spdy(_)) {
        tokio::select! {
            () = &mut up => {}
            () = writer.closed() => drop(timeout(LAST_INPUT, up).await),
            () = unchanged(IDLE_TIMEOUT, || sent.load(Ordering::Relaxed)) => {}
        }
    }
}

/// Copies from the client to the pod until the client ends its direction or disconnects, or the pod no longer
/// receives. If the pod no longer receives, discards the rest of the client's data.
async fn up(mut reader: Reader, mut to_pod: OwnedWriteHalf, sent: &AtomicU64) {
    while let Some(bytes) = reader.next().await {
        if to_pod.write_all(&bytes).await.is_err() {
            return;
        }
        sent.fetch_add(1, Ordering::Relaxed);
    }
    let _ = to_pod.shutdown().await;
}

/// Copies from the pod to the client. Reads from the pod only while this connection has `output_lock`. So if a client
/// does not read, only one of its forwarded connections holds a buffer with data from the pod.
async fn down(from_pod: OwnedReadHalf, writer: &mut Writer, output_lock: &Mutex<()>) -> Down {
    loop {
        let readable = tokio::select! {
            readable = from_pod.readable() => readable,
            () = writer.closed() => return Down::Unwanted,
        };
        let _lock = tokio::select! {
            lock = output_lock.lock() => lock,
            () = writer.closed() => return Down::Unwanted,
        };
        let mut buffer = BytesMut::with_capacity(LARGEST_PIECE);
        match readable.and_then(|()| from_pod.try_read_buf(&mut buffer)) {
            Ok(0) => return Down::Ended,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Down::Broken(error),
        }
        if writer.send(buffer.freeze()).await.is_err() {
            return Down::Unwanted;
        }
    }
}
