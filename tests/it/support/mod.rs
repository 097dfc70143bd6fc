//! What the stories stand on.

pub(crate) mod fake_dockerd;
