//! Targets of `make fuzz`: SPDY frames in pieces of any size, and a connection whose peer sends any bytes.

#![allow(clippy::expect_used, reason = "a fuzz target fails by panicking")]

use std::{future::Future, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::{io::AsyncWriteExt, time::timeout};

use super::{
    connection::Connection,
    decode::{Decoder, Frame},
    frame::{self, Malformed, ResetReason},
};
use crate::{fuzz_input::portions, streaming::inbox::Window};

/// Decodes frames. The split of the bytes into pieces must have no effect. A frame that dockbridge can write must be
/// the same after writing and reading it.
pub(crate) fn frames(bytes: &[u8]) {
    let (whole, cut) = (decoded([bytes]), decoded(portions(bytes)));
    assert_eq!(whole, cut, "the cut changed what was read");
    let (frames, end) = whole;
    let taken: usize = frames.iter().map(size).sum();
    let (mut out, mut written) = (BytesMut::new(), Vec::new());
    for frame in frames {
        if write(&frame, &mut out) {
            put(frame, &mut written);
        }
    }
    let (again, end_of_written) = decoded([&out[..]]);
    assert!(end_of_written.is_none(), "what we write is malformed: {end_of_written:?}");
    assert_eq!(again, written);
    assert!(end.is_some() || taken <= bytes.len(), "more data came out than went in");
}

/// Runs an SPDY connection whose peer sends `bytes`. The connection must not hang, and must not deliver more bytes than
/// the peer has sent.
pub(crate) fn peer(bytes: &[u8]) {
    on_this_thread(async {
        let (mut theirs, ours) = tokio::io::duplex(bytes.len().max(64));
        let mut connection = Connection::start(ours, Window::default());
        let said = async {
            for piece in portions(bytes) {
                if theirs.write_all(piece).await.is_err() {
                    break;
                }
            }
            let _ = theirs.shutdown().await;
            // The peer reads the answers of dockbridge, so that they do not fill the pipe.
            let _ = tokio::io::copy(&mut theirs, &mut tokio::io::sink()).await;
        };
        let heard = async {
            let (mut total, mut streams) = (0, 0);
            while let Some(offer) = connection.accept().await {
                streams += 1;
                assert!(offer.id() % 2 == 1);
                if offer.header("streamtype") == Some("refuse") {
                    continue;
                }
                let (mut receiver, mut sender) = offer.accept();
                let _ = sender.send(Bytes::from_static(b"hello")).await;
                if streams % 2 == 0 {
                    let _ = sender.finish().await;
                }
                let reading = tokio::spawn(async move {
                    let mut read = 0;
                    while let Some(bytes) = receiver.next().await {
                        assert!(!bytes.is_empty(), "an empty piece was handed on");
                        read += bytes.len();
                    }
                    drop(sender);
                    read
                });
                total += reading.await.expect("a reader panics");
            }
            drop(connection);
            total
        };
        let ((), total) = tokio::join!(said, heard);
        assert!(total <= bytes.len(), "more data was handed on than was sent");
    });
}

/// Decodes all frames until the end or the first error, and joins consecutive data of a stream until its end.
fn decoded<'a>(portions: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Frame>, Option<Malformed>) {
    let mut decoder = Decoder::default();
    let (mut input, mut frames) = (BytesMut::new(), Vec::new());
    for portion in portions {
        input.put_slice(portion);
        loop {
            match decoder.next(&mut input) {
                Ok(Some(frame)) => put(frame, &mut frames),
                Ok(None) => break,
                Err(fault) => return (frames, Some(fault)),
            }
        }
    }
    (frames, None)
}

/// Adds a frame to the list, or its data to the list's last frame if that frame is data of the same stream and does
/// not end the stream.
fn put(frame: Frame, frames: &mut Vec<Frame>) {
    if let (
        Some(Frame::Data { id: before, bytes: held, last: over }),
        Frame::Data { id, bytes, last },
    ) = (frames.last_mut(), &frame)
        && before == id
        && !*over
    {
        *held = [&held[..], bytes].concat().into();
        *over = *last;
        return;
    }
    frames.push(frame);
}

/// Encodes a frame. Returns false for a type of frame that dockbridge never writes.
fn write(frame: &Frame, out: &mut BytesMut) -> bool {
    match frame {
        Frame::Open(_) => return false,
        Frame::Reset(id) => frame::reset(*id, ResetReason::Cancel, out),
        Frame::Ping(id) => frame::ping(*id, out),
        Frame::Data { id, bytes, last } => {
            frame::data(*id, *last, bytes.len(), out);
            out.put_slice(bytes);
        }
    }
    true
}

fn size(frame: &Frame) -> usize {
    match frame {
        Frame::Data { bytes, .. } => bytes.len(),
        _ => 0,
    }
}

/// Runs `work`. Fails if `work` does not end within the timeout.
fn on_this_thread(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.expect("a runtime").block_on(async { timeout(TIMEOUT, work).await });
    assert!(done.is_ok(), "the connection does not end");
}

/// Time limit for a connection in this test: longer than a connection waits for its peer at the end.
const TIMEOUT: Duration = Duration::from_secs(8);
