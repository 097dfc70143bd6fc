//! CRI messages to model, refusing what is malformed.
