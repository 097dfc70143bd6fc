//! The image verbs.
