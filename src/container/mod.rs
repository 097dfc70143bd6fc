//! The container verbs.
