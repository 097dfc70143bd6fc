//! What a container's plan depends on besides its specification: found out before anything is
//! done, so that what cannot be is refused with nothing to undo.

pub mod cdi;
pub mod facts;
pub mod profile;
pub(super) mod volumes;
