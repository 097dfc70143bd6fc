//! What must survive and Docker cannot hold: versioned, checksummed, atomically replaced files.
