//! The edge: each method parses, calls and renders.
