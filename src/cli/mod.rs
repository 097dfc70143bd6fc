//! The command line: flags exactly as typed, cri-dockerd's beside them, and the verb they lead to.

pub mod execute;
pub mod flags;
pub mod legacy;
pub mod verb;

#[cfg(test)]
mod tests;
