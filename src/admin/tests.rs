//! What the window says, and to whom.
