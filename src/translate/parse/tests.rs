//! Requests field by field: which are accepted, and which are refused with which field name.

pub(in crate::translate) mod sample;

mod accepted;
mod exec;
mod hostile;
mod odd;
mod refused;
mod streams;
