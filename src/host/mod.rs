//! Small typed doors to this machine's kernel and file system; the only `unsafe`.
