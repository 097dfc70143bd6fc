//! The only place that maps kinds of failures to gRPC codes.

use tonic::{Code, Status};

use crate::{
    checkpoint::error::CheckpointError,
    container::{dump::error::DumpError, error::ContainerError},
    engine::error::EngineError,
    error::{Kind, chain, shortened},
    image::error::ImageError,
    network::error::NetworkError,
    sandbox::error::SandboxError,
    stats::service::StatsError,
    store::error::StoreError,
    streaming::error::StreamError,
    translate::parse::error::ParseError,
};

/// The gRPC code for a kind of failure, as kubelet reads it.
pub const fn code(kind: Kind) -> Code {
    match kind {
        Kind::InvalidArgument => Code::InvalidArgument,
        Kind::NotFound => Code::NotFound,
        Kind::AlreadyExists => Code::AlreadyExists,
        Kind::FailedPrecondition => Code::FailedPrecondition,
        Kind::ResourceExhausted => Code::ResourceExhausted,
        Kind::Unavailable => Code::Unavailable,
        Kind::DeadlineExceeded => Code::DeadlineExceeded,
        Kind::Cancelled => Code::Cancelled,
        Kind::PermissionDenied => Code::PermissionDenied,
        Kind::Unimplemented => Code::Unimplemented,
        Kind::Unknown => Code::Unknown,
        Kind::Internal => Code::Internal,
    }
}

/// A failed call as kubelet sees it.
pub fn failed<E: Into<Failure>>(error: E) -> Status {
    let Failure { kind, text } = error.into();
    status(kind, text)
}

/// A failure whose message may quote the request, so it may have any length.
pub fn status(kind: Kind, text: String) -> Status {
    Status::new(code(kind), shortened(text))
}

/// An error of a service as a gRPC status.
#[derive(Clone, Debug)]
pub struct Failure {
    kind: Kind,
    text: String,
}

macro_rules! failures {
    ($($error:ty),* $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self { kind: error.kind(), text: chain(&error) }
            }
        }
    )*};
}

failures! {
    CheckpointError, ContainerError, DumpError, EngineError, ImageError, NetworkError, ParseError, SandboxError, StatsError,
    StoreError, StreamError,
}
