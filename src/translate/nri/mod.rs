//! What NRI plugins ask for: the answers of several plugins merged into one. Start with [`merge::Merge`].

mod entries;
pub mod merge;
pub mod owners;
pub mod updates;

#[cfg(test)]
mod tests;
