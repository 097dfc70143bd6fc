//! Tests of device nodes in a container's `config.json`.

use serde_json::json;

use super::{
    super::{edit, edit::Mounted},
    SpecEdit, document, edits_of,
};
use crate::model::spec_edit::OF_PROCESS;

#[test]
fn a_device_without_an_owner_belongs_to_the_containers_user() {
    let device = json!({"type": "c", "uid": OF_PROCESS, "gid": OF_PROCESS});
    let edits = edits_of([SpecEdit::set(&["linux", "devices", "/dev/new"], device)]);
    for (user, uid, gid) in [(json!({"uid": 1000, "gid": 7}), 1000, 7), (json!({}), 0, 0)] {
        let mut document = document();
        document["process"]["user"] = user;
        edit::edit(&mut document, &edits, &Mounted::default()).unwrap();
        let wanted = json!({"path": "/dev/new", "type": "c", "uid": uid, "gid": gid});
        assert!(document["linux"]["devices"].as_array().unwrap().contains(&wanted));
    }
}
