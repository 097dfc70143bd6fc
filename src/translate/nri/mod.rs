//! The changes that NRI plugins request: merges the answers of several plugins. Start with [`merge::Merge`].

pub mod merge;
pub mod owners;
pub mod updates;

#[cfg(test)]
mod tests;
