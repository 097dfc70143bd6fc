//! Specs and facts to Docker bodies.
