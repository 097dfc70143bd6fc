//! Docker answers to records.
