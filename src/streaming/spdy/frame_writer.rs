//! The writing side of a connection. Only [`FrameWriter`] writes to the connection, so no frame begins within another
//! frame.
//!
//! [`FrameWriter`] writes queued control frames before queued data, and stores the bytes that are being written, so
//! that no bytes are lost if the future of [`FrameWriter::run`] is dropped.

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
    /// Encoded control frames, and then the head of the data frame, if any, whose content is `payload`.
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

    /// Writes queued frames. Returns only if a write fails.
    pub(super) async fn run(&mut self) -> io::Result<()> {
        loop {
            self.flush().await?;
            self.gather().await;
        }
    }

    /// Writes the queued frames and GOAWAY, and then closes dockbridge's side of the connection.
    pub(super) async fn close(&mut self, last: u32, reason: GoAwayReason) -> io::Result<()> {
        self.outbox.close();
        self.flush().await?;
        while let Some(frame) = self.outbox.recv().await {
            self.encode(Some(frame));
            self.flush().await?;
        }
        self.encode(None);
        frame::go_away(last, reason, &mut self.heads);
        self.flush().await?;
        self.writer.shutdown().await
    }

    /// Waits for a frame, and encodes it and the queued control frames.
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

    /// Encodes the queued control frames before `frame`: the frame that accepts a stream precedes its first data.
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
        // Frees the memory of the written payload.
        self.payload = Bytes::new();
        self.writer.flush().await
    }
}
