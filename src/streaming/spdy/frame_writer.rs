//! The writing side. Nothing else writes, so frames are always complete.
//!
//! Control frames are written before data. Bytes being written are stored here and not in a future, so that
//! nothing is lost when the future is dropped.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    sync::atomic::Ordering,
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};

use super::{
    control_frames::{ControlFrame, ControlReceiver},
    frame::{self, GoAwayReason},
    stream::Outgoing,
};

#[derive(Debug)]
pub(super) struct FrameWriter<W> {
    writer: W,
    replied: bool,
    control: ControlReceiver,
    outbox: mpsc::Receiver<Outgoing>,
    chain: VecDeque<Bytes>,
    heads: BytesMut,
}

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    pub(super) fn new(
        writer: W,
        control: ControlReceiver,
        outbox: mpsc::Receiver<Outgoing>,
    ) -> Self {
        Self {
            writer,
            replied: false,
            control,
            outbox,
            chain: VecDeque::new(),
            heads: BytesMut::new(),
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
        self.chain.push_back(self.heads.split().freeze());
        self.flush().await?;
        self.writer.shutdown().await
    }

    /// Waits until there is something to write, and encodes it.
    async fn gather(&mut self) {
        let frame = tokio::select! {
            biased;
            Some(frame) = self.control.next() => {
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
        while let Some(frame) = self.control.next_now() {
            self.put_control(frame);
        }
        if let Some(Outgoing { id, life, bytes, last }) = frame
            && !life.aborted.load(Ordering::Acquire)
        {
            frame::data(id, last, bytes.len(), &mut self.heads);
            if !bytes.is_empty() {
                self.chain.push_back(self.heads.split().freeze());
                self.chain.push_back(bytes);
            }
        }
        if !self.heads.is_empty() {
            self.chain.push_back(self.heads.split().freeze());
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
        while !self.chain.is_empty() {
            let slices: Vec<IoSlice<'_>> =
                self.chain.iter().take(SLICES).map(|part| IoSlice::new(part)).collect();
            let written = self.writer.write_vectored(&slices).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.advance(written);
        }
        self.writer.flush().await
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(part) = self.chain.front_mut() {
            let done = part.len().min(written);
            part.advance(done);
            written -= done;
            if !part.is_empty() {
                return;
            }
            self.chain.pop_front();
        }
    }
}

/// How many buffers one system call writes: heads and a payload.
const SLICES: usize = 4;
