//! Fixture tests of observe.
