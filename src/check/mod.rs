//! Examines the host for an operator: what is there, what is missing, what to do.
