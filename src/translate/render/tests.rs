//! Tests of rendered messages, for example that they have the fields that kubelet's client requires.

mod container;
mod dump;
mod filter;
mod image;
mod nri;
mod records;
mod runtime;
mod sandbox;
mod signal;
mod stats;
