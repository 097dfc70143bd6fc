//! The four pure verbs: parse (CRI to model), plan (model and facts to Docker bodies), observe
//! (Docker to model), render (model to CRI). No I/O, no clock, no random.

#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod observe;
pub mod parse;
pub mod plan;
pub mod render;

#[cfg(test)]
mod tests;
