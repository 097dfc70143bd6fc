//! Translates between the CRI and the Docker API, in four pure modules: [`parse`] (CRI request to model),
//! [`plan`] (model to Docker request), [`observe`] (Docker response to model), [`render`] (model to CRI
//! response). In addition, [`limits`] does all four conversions for the limits of containers, and [`nri`] merges the
//! requests of NRI plugins. The modules of `translate` do no I/O and use neither clock nor random numbers.

#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
pub mod limits;
pub mod nri;
pub mod observe;
pub mod parse;
pub mod plan;
pub mod render;

#[cfg(test)]
pub(crate) mod tests;
