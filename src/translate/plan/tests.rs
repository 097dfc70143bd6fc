//! Fixture and property tests of plan.
