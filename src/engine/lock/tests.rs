//! Each engine with an id has one lock file, whose name cannot lead out of the directory of lock files.

use super::*;

const ID: &str = "F2SQ:FEK7:6NOJ:VLRU:MA2G:I3P5:VWM6:ATGB:RRVL:JQIL:W7AU:67QM";

fn name_of(id: &str, root: &str) -> String {
    name(id, Path::new(root)).unwrap()
}

#[test]
fn a_lock_is_named_by_the_engine() {
    let uuid = "cb57820d-2d55-4a38-81c7-263623d86a48";
    assert_eq!(name_of(uuid, "/var/lib/docker"), format!("{uuid}@%2Fvar%2Flib%2Fdocker.lock"));
    assert_eq!(name_of(ID, "/data"), format!("{ID}@%2Fdata.lock"));
    assert_eq!(name("", Path::new("/data")), None, "an engine without an id");
}

#[test]
fn engines_that_share_a_key_have_locks_of_their_own() {
    assert_ne!(name_of(ID, "/data/1"), name_of(ID, "/data/2"));
    assert_ne!(name_of("a", "/b@c"), name_of("a@%2Fb", "c"));
}

#[test]
fn no_id_leads_out_of_the_directory() {
    let long = "x".repeat(4096);
    for (id, root) in [("../../etc/passwd", ".."), ("..", ""), ("\0/\n", "\u{e4}"), (&long, &long)]
    {
        let name = name_of(id, root);
        assert!(!name.contains(['/', '\0', '\n']) && name.len() <= 255, "{name}");
        assert!(name.ends_with(".lock"), "{name}");
    }
    assert_ne!(name_of(&long, "/1"), name_of(&long, "/2"));
}
