//! Talks to dockerd: calls in, model out.
