//! Why a limit cannot be set.

use std::{io, sync::Arc};

use thiserror::Error;

use crate::{checkpoint::error::CheckpointError, error::Kind, host::error::HostError};

/// A limit that dockbridge sets itself was refused. Cheap to clone, because several callers may wait for one
/// task.
#[derive(Clone, Debug, Error)]
pub enum LimitError {
    /// The kernel refuses the value, or has no such file.
    #[error("cannot set {field} to {value}")]
    NotSet {
        field: String,
        value: String,
        #[source]
        cause: Arc<HostError>,
    },
    /// The container's processes are not visible here.
    #[error("{field}: the control group of the container cannot be found on this node")]
    NoGroup { field: String },
    /// The new limit is below the memory in use, so the kernel would end processes.
    #[error(
        "linux.memory_limit_in_bytes: {limit} is less than the {used} bytes the container uses now"
    )]
    InUse {
        limit: i64,
        /// The working set, in bytes.
        used: i64,
    },
    #[error("linux.resources.hugepage_limits[{size}].page_size: this node has {known}")]
    PageSize { size: String, known: String },
    #[error("linux.resources.hugepage_limits[{size}]: this node has no hugetlb controller")]
    NoHugepages { size: String },
    /// The limits cannot be saved, so a restart would lose them.
    #[error("cannot save the limits")]
    NotSaved {
        #[source]
        cause: Arc<CheckpointError>,
    },
}

impl LimitError {
    /// What sort of failure it is.
    pub fn kind(&self) -> Kind {
        match self {
            Self::PageSize { .. } => Kind::InvalidArgument,
            Self::NotSet { cause, .. } => match cause.source.raw_os_error() {
                Some(OUT_OF_RANGE) => Kind::InvalidArgument,
                _ if cause.source.kind() == io::ErrorKind::InvalidInput => Kind::InvalidArgument,
                _ => Kind::FailedPrecondition,
            },
            Self::NoGroup { .. } | Self::InUse { .. } | Self::NoHugepages { .. } => {
                Kind::FailedPrecondition
            }
            Self::NotSaved { cause } => cause.kind(),
        }
    }
}

/// ERANGE, for which the standard library has no kind.
const OUT_OF_RANGE: i32 = 34;
