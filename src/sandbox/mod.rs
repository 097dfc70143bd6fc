//! The pod verbs.
