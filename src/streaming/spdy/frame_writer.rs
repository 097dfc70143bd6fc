//! The writing side. Nothing else writes, so frames are always complete.
//!
//! Control frames are written before data. Bytes being written are stored here and not in a future, so that
//! nothing is lost when the future is dropped.

use std::{io, sync::atomic::Ordering};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};

use super::{
    control_frames::{ControlFrame, Queued},
    frame::{self, GoAwayReason},
    stream::Outgoing,
};

#[derive(Debug)]
pub(super) struct FrameWriter<W> {
    writer: W,
    replied: bool,
    control: mpsc::UnboundedReceiver<Queued>,
    outbox: mpsc::Receiver<Outgoing>,
    /// Control frames, then the head of a data frame.
    heads: BytesMut,
    payload: Bytes,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    pub(super) fn new(
        writer: W,
        control: mpsc::UnboundedReceiver<Queued>,
        outbox: mpsc::Receiver<Outgoing>,
    ) -> Self {
        Self {
            writer,
            replied: false,
            control,
            outbox,
            heads: BytesMut::new(),
            payload: Bytes::new(),
        }
    }

    /// Returns only an error.
    pub(super) async fn run(&mut self) -> io::Result<()> {
        loop {
            self.flush().await?;
            self.gather().await;
        }
    }

    /// Writes what was queued before, then GOAWAY, and closes our side of the connection.
    pub(super) async fn close(&mut self, last: u32, reason: GoAwayReason) -> io::Result<()> {
        self.outbox.close();
        loop {
            self.flush().await?;
            let frame = self.outbox.recv().await;
            let is_last = frame.is_none();
            self.encode(frame);
            if is_last {
                break;
            }
        }
        frame::go_away(last, reason, &mut self.heads);
        self.flush().await?;
        self.writer.shutdown().await
    }

    /// Waits until there is something to write, and encodes it.
    async fn gather(&mut self) {
        let frame = tokio::select! {
            biased;
            Some(Queued { frame, .. }) = self.control.recv() => {
                self.put_control(frame);
                None
            }
            frame = self.outbox.recv() => frame,
        };
        self.encode(frame);
    }

    /// Control frames come first: the one that accepts a stream was queued before the stream's first data,
    /// but perhaps after the last check.
    fn encode(&mut self, frame: Option<Outgoing>) {
        while let Ok(Queued { frame, .. }) = self.control.try_recv() {
            self.put_control(frame);
        }
        if let Some(Outgoing { id, life, bytes, last }) = frame
            && !life.aborted.load(Ordering::Acquire)
        {
            frame::data(id, last, bytes.len(), &mut self.heads);
            self.payload = bytes;
        }
    }

    fn put_control(&mut self, frame: ControlFrame) {
        let out = &mut self.heads;
        match frame {
            ControlFrame::Reply(id) => {
                frame::reply(id, !std::mem::replace(&mut self.replied, true), out);
            }
            ControlFrame::Reset(id, status) => frame::reset(id, status, out),
            ControlFrame::End(id) => frame::data(id, true, 0, out),
            ControlFrame::Ping(id) => frame::ping(id, out),
            ControlFrame::Probe(id) => frame::data(id, false, 0, out),
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let mut unwritten = (&mut self.heads).chain(&mut self.payload);
        self.writer.write_all_buf(&mut unwritten).await?;
        // Frees the buffer.
        self.payload = Bytes::new();
        self.writer.flush().await
    }
}
