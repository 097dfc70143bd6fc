//! Flags exactly as typed, and cri-dockerd's beside them.

pub mod flags;
pub mod legacy;
pub mod verb;

#[cfg(test)]
mod tests;
