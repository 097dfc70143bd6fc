//! Connects and disconnects a network namespace given as a value; never knows Docker.
//!
//! [`service`] is the door: prepare an intent, attach, detach, recall, collect garbage, say
//! whether pods can be connected. [`findings`] is what the configuration directory holds right
//! now and why the rest of it was refused; `keeper` keeps that fresh in the background. [`arguments`] turns
//! a pod into what plugins are told. [`cni`] speaks the Container Network Interface: files in,
//! plugins run, results read.
//! What a lost pod left behind is released by `garbage`.
//!
//! Nothing falls back: a node without a usable configuration connects no pod and says why.

pub mod arguments;
pub mod cni;
pub mod error;
pub mod findings;
pub mod quantity;
pub mod service;

mod garbage;
mod keeper;

#[cfg(test)]
mod stage;
