//! ttrpc is the protocol of both logical connections with an NRI plugin. A ttrpc message has a header of ten bytes
//! (length, stream, type, flags) and a protobuf message. NRI uses only calls with one request and one response.
//! docs/decisions/0034 says why dockbridge has its own implementation.

use bytes::{Buf, BytesMut};
use prost::{
    Message,
    encoding::{DecodeContext, decode_key, skip_field},
};

use super::mux::{MESSAGE_HEADER as HEADER, MESSAGE_LIMIT, MOST_ENTRIES, ProtocolError};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Request {
    #[prost(string, tag = "1")]
    pub(super) service: String,
    #[prost(string, tag = "2")]
    pub(super) method: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) payload: Vec<u8>,
    /// How long the caller waits for an answer; 0 if the caller sets no limit.
    #[prost(int64, tag = "4")]
    pub(super) timeout_nano: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Response {
    /// On success, missing or with code 0.
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<Status>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) payload: Vec<u8>,
}

/// `google.rpc.Status`, without its details.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Status {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) kind: u8,
    /// Number of the stream. An answer has the number of its call.
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Envelope {
    pub(super) fn request(stream: u32, request: &Request) -> Self {
        Self { kind: REQUEST, stream, payload: request.encode_to_vec() }
    }

    pub(super) fn response(stream: u32, response: &Response) -> Self {
        Self { kind: RESPONSE, stream, payload: response.encode_to_vec() }
    }

    pub(super) fn encoded(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + self.payload.len());
        let length = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&self.stream.to_be_bytes());
        out.extend_from_slice(&[self.kind, 0]);
        out.extend_from_slice(&self.payload);
        out
    }
}

/// Assembles messages from received bytes. After a successful push, buffers less than one message of maximum length.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    buffer: BytesMut,
}

impl Decoder {
    /// Adds received bytes, and passes each message that is now complete to `deliver`.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        mut deliver: impl FnMut(Envelope) -> Result<(), ProtocolError>,
    ) -> Result<(), ProtocolError> {
        self.buffer.extend_from_slice(bytes);
        while let Some([a, b, c, d, e, f, g, h, kind, _]) = self.buffer.first_chunk().copied() {
            let length = u32::from_be_bytes([a, b, c, d]);
            let size = usize::try_from(length).ok().filter(|size| *size <= MESSAGE_LIMIT);
            let size = size.ok_or(ProtocolError::Length(length))?;
            if self.buffer.len() < HEADER + size {
                break;
            }
            self.buffer.advance(HEADER);
            let payload = self.buffer.split_to(size).to_vec();
            deliver(Envelope { kind, stream: u32::from_be_bytes([e, f, g, h]), payload })?;
        }
        Ok(())
    }

    /// Number of buffered bytes.
    #[cfg(any(test, feature = "fuzz"))]
    pub(super) fn held(&self) -> usize {
        self.buffer.len()
    }
}

/// Decodes a message. A field of two bytes can need hundreds of bytes in memory, so the number of top-level fields is
/// limited. Fields in nested messages are not counted.
pub(super) fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, ProtocolError> {
    let (mut rest, mut entries) = (bytes, 0);
    while !rest.is_empty() {
        let (field, kind) = decode_key(&mut rest).map_err(|_| ProtocolError::Message)?;
        let skipped = skip_field(kind, field, &mut rest, DecodeContext::default());
        skipped.map_err(|_| ProtocolError::Message)?;
        entries += 1;
        if entries > MOST_ENTRIES {
            return Err(ProtocolError::Entries);
        }
    }
    M::decode(bytes).map_err(|_| ProtocolError::Message)
}

/// The message types of calls and of answers.
pub(super) const REQUEST: u8 = 1;
pub(super) const RESPONSE: u8 = 2;
/// The gRPC codes of the errors that dockbridge sends to NRI plugins.
pub(super) const UNKNOWN: i32 = 2;
pub(super) const INVALID_ARGUMENT: i32 = 3;
pub(super) const FAILED_PRECONDITION: i32 = 9;
pub(super) const UNIMPLEMENTED: i32 = 12;
