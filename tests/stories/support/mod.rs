//! What every story needs: the world's facts, dockbridge as a child process, a CRI client, the
//! engine seen from beside dockbridge, and the search for leftovers.

pub(crate) mod bridge;
pub(crate) mod cri;
pub(crate) mod engine;
pub(crate) mod failure;
pub(crate) mod http;
pub(crate) mod leftovers;
pub(crate) mod pod;
pub(crate) mod proxy;
pub(crate) mod stage;
pub(crate) mod world;
