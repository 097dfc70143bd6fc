//! The only place that maps kinds of failures to gRPC codes.

use tonic::{Code, Status};

use crate::{
    error::{Failure, Kind, shortened},
    translate::parse::error::ParseError,
};

/// The gRPC code that has the same name as the kind.
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

/// A gRPC status with a message of limited length. `text` may quote the request and can have any length.
pub fn status(kind: Kind, text: String) -> Status {
    Status::new(code(kind), shortened(text))
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        status(failure.kind(), failure.to_string())
    }
}

impl From<ParseError> for Status {
    fn from(error: ParseError) -> Self {
        Failure::from(error).into()
    }
}
