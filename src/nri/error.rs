//! Why a pod or container cannot be as plugins request.

use std::sync::Arc;

use thiserror::Error;

use crate::{
    error::{Kind, WithKind},
    translate::{nri::owners::Conflict, parse::adjustment::AdjustmentError},
};

/// An error caused by a plugin. Cheap to clone, because several callers may wait for one task.
#[derive(Clone, Debug, Error)]
pub enum NriError {
    #[error("the NRI plugin {plugin} refused {call}: {message}")]
    Refused { plugin: String, call: &'static str, message: String },
    #[error("required NRI plugins are not connected: {missing}")]
    Missing { missing: String },
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// A plugin may only adjust a container that is being created, but this one requested an update of it.
    #[error(
        "the NRI plugin {plugin} answered CreateContainer with an update of the same container; \
         it must be an adjustment"
    )]
    OwnUpdate { plugin: String },
    /// The changes that plugins request are impossible.
    #[error(transparent)]
    Adjustment(Arc<AdjustmentError>),
}

impl WithKind for NriError {
    fn kind(&self) -> Kind {
        match self {
            Self::Refused { .. } => Kind::Unknown,
            Self::Missing { .. } => Kind::Unavailable,
            Self::Conflict(_) | Self::OwnUpdate { .. } => Kind::FailedPrecondition,
            Self::Adjustment(cause) => match **cause {
                AdjustmentError::Limits(_) | AdjustmentError::Changes { .. } => {
                    Kind::InvalidArgument
                }
                AdjustmentError::Unsupported { .. } => Kind::Unimplemented,
            },
        }
    }
}

impl From<AdjustmentError> for NriError {
    fn from(error: AdjustmentError) -> Self {
        Self::Adjustment(Arc::new(error))
    }
}
