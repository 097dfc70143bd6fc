//! A SPDY/3.1 client, written from the SPDY specification (drafts 3 and 3.1) and from observing what
//! kubelet's client sends. It uses none of the server's code.

pub(crate) mod client;
pub(crate) mod dictionary;
pub(crate) mod frame;
pub(crate) mod headers;
