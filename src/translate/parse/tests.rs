//! Requests field by field: what is taken, what is refused and under which name.

pub(in crate::translate) mod sample;

mod accepted;
mod exec;
mod hostile;
mod odd;
mod refused;
mod streams;
