//! A SPDY/3.1 client for stories. We wrote the client from the SPDY specification (drafts 3 and 3.1) and by observing
//! what kubectl's client sends. The client uses no code of dockbridge.

pub(crate) mod client;
pub(crate) mod dictionary;
pub(crate) mod frame;
pub(crate) mod headers;
