//! The embedded pause image as a loadable archive.
