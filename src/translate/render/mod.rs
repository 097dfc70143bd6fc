//! Records to CRI messages.
