//! A state directory with every kind of damage.
