//! User namespaces as CRI shows them.

use crate::{
    model::user_namespace::{IdMapping, IdMappings},
    wire::cri,
};

/// The mappings of a pod. None if it uses the host's ids.
pub(super) fn options(users: Option<IdMappings>) -> Option<cri::UserNamespace> {
    users.map(|ids| cri::UserNamespace {
        mode: cri::NamespaceMode::Pod.into(),
        uids: vec![range(ids.uids)],
        gids: vec![range(ids.gids)],
    })
}

pub(super) const fn range(ids: IdMapping) -> cri::IdMapping {
    cri::IdMapping { host_id: ids.host, container_id: 0, length: ids.length }
}
