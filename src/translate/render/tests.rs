//! Records in, messages out: what kubelet's client validates is always there.

mod container;
mod image;
mod records;
mod runtime;
mod sandbox;
mod signal;
mod stats;
