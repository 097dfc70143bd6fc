//! Tests of requests field by field: which requests `parse` accepts, and which it refuses with which field name.

pub(in crate::translate) mod sample;

mod accepted;
mod exec;
mod hostile;
mod odd;
mod refused;
mod streams;
