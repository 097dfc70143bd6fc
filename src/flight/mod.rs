//! Side-effecting calls as tasks the daemon owns: joined when repeated, ordered by key.
