//! Tests of the command lines that containerd's shim writes, of edits of a `config.json`, of the directory of edits,
//! and of the preparation of a bundle.

mod chain;
mod devices;
mod fixtures;

use std::{ffi::OsString, fs, path::Path, process::ExitCode};

use serde_json::{Value, json};

use super::{
    command_line::CommandLine, create, directory::EditsDirectory, edit, edit::Mounted, execute,
};
use crate::model::{
    oci_edits::{MappedMount, OciEdits, REQUIRED_ANNOTATION, VERSION},
    spec_edit::SpecEdit,
    user_namespace::{IdMapping, IdMappings},
};

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn read(line: &str) -> CommandLine {
    CommandLine::read(line.split_whitespace().map(OsString::from))
}

#[test]
fn command_id_and_paths_are_read_from_the_command_lines_of_shims() {
    let create = read(
        "--root /run/runc/moby --log /b/log.json --log-format json --systemd-cgroup create \
         --bundle /b --pid-file /b/init.pid --console-socket /s abc",
    );
    assert_eq!((create.command.as_str(), create.id.as_str()), ("create", "abc"));
    assert_eq!(create.bundle, Path::new("/b"));
    assert_eq!((create.log.as_deref(), create.is_log_json), (Some(Path::new("/b/log.json")), true));
    assert_eq!(create.words.len(), 15);
    let exec = read("--log=/l exec --process /tmp/p -d --pid-file /p abc");
    assert_eq!((exec.command.as_str(), exec.id.as_str()), ("exec", "abc"));
    assert_eq!((exec.process.as_deref(), exec.is_log_json), (Some(Path::new("/tmp/p")), false));
    for (words, command, id) in [
        ("delete --force abc", "delete", "abc"),
        ("delete -f abc", "delete", "abc"),
        ("-root /r kill --all abc", "kill", "abc"),
        ("--debug start abc", "start", "abc"),
        ("features", "features", ""),
        ("--version", "", ""),
        ("update --resources - abc", "update", "abc"),
        ("ps --format json abc", "ps", "abc"),
    ] {
        let line = read(words);
        assert_eq!((line.command.as_str(), line.id.as_str()), (command, id), "{words}");
    }
    for words in ["kill ID 15", "kill --all ID 9", "exec --tty --user 1 ID sh", "ps ID -e"] {
        let line = read(&words.replace("ID", ID));
        assert_eq!(line.id, ID, "{words}");
        assert_eq!(line.words.len(), words.split(' ').count());
    }
}

#[test]
fn our_own_flag_is_not_passed_on() {
    for words in
        ["--dockbridge-runtime crun --debug state x", "--dockbridge-runtime=crun --debug state x"]
    {
        let line = read(words);
        assert_eq!(line.runtime, ["crun"], "{words}");
        assert_eq!(line.words, ["--debug", "state", "x"].map(OsString::from), "{words}");
    }
}

#[test]
fn the_program_is_the_runtime_by_its_name_or_by_its_command() {
    let words = |text: &str| {
        execute::words_for_runtime(&text.split(' ').map(OsString::from).collect::<Vec<_>>())
    };
    assert_eq!(words("/usr/bin/dockbridge-runtime state x").unwrap().len(), 2);
    assert_eq!(words("dockbridge runtime state x").unwrap().len(), 2);
    assert_eq!(words("dockbridge serve"), None);
    assert_eq!(words("dockbridge"), None);
}

fn mappings() -> IdMappings {
    let ids = IdMapping { host: 100_000, length: 65_536 };
    IdMappings { uids: ids, gids: ids }
}

fn document() -> Value {
    json!({
        "ociVersion": "1.2.0",
        "newer": {"field": [1.5, 18_446_744_073_709_551_615_u64]},
        "root": {"path": "/merged"},
        "process": {"capabilities": {"bounding": ["CAP_CHOWN"], "permitted": ["CAP_NET_RAW"]}},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/data/", "type": "bind", "source": "/srv/data", "options": ["rbind"]},
        ],
        "linux": {
            "namespaces": [{"type": "mount"}, {"type": "network"}, {"type": "pid", "path": "/p"}],
            "sysctl": {"net.ipv4.ping_group_range": "0 2147483647"},
            "devices": [{"path": "/dev/b", "type": "c"}, {"path": "/dev/c", "type": "c"}],
            "resources": {"hugepageLimits": [{"pageSize": "2MB", "limit": 1}]},
        },
    })
}

fn edits_of<const N: usize>(edits: [SpecEdit; N]) -> OciEdits {
    OciEdits { edits: edits.into(), ..OciEdits::default() }
}

fn mapped(destination: &str, without_devices: bool) -> MappedMount {
    let (destination, mappings) = (destination.to_owned(), mappings());
    MappedMount { destination, mappings, is_implicit: without_devices, without_devices }
}

fn edited(edits: &OciEdits, mounted: &Mounted) -> Value {
    let mut document = document();
    edit::edit(&mut document, edits, mounted).unwrap();
    document
}

#[test]
fn no_edits_change_nothing() {
    assert_eq!(edited(&OciEdits::default(), &Mounted::default()), document());
}

#[test]
fn namespaces_are_joined_and_ids_are_mapped() {
    let namespace = |kind: &str, path: &str| {
        SpecEdit::set(&["linux", "namespaces", kind], json!({"path": path}))
    };
    let edits = OciEdits {
        users: Some(mappings()),
        edits: vec![namespace("network", "/pins/net"), namespace("user", "/pins/user")],
        ..OciEdits::default()
    };
    let mounted = Mounted { root: Some("/run/root".into()), ..Mounted::default() };
    let document = edited(&edits, &mounted);
    assert_eq!(document["root"]["path"], "/run/root");
    assert_eq!(
        document["linux"]["namespaces"],
        json!([
            {"type": "mount"}, {"type": "pid", "path": "/p"}, {"type": "network", "path": "/pins/net"},
            {"type": "user", "path": "/pins/user"},
        ])
    );
    let ids = json!([{"containerID": 0, "hostID": 100_000, "size": 65_536}]);
    assert_eq!(document["linux"]["uidMappings"], ids);
    assert_eq!(document["linux"]["gidMappings"], ids);
    assert_eq!(document["linux"]["sysctl"]["net.ipv4.ping_group_range"], "0 65535");
    assert_eq!(document["newer"], self::document()["newer"]);
}

#[test]
fn each_edit_changes_its_field_and_keeps_the_others() {
    let sets = ["bounding", "permitted", "inheritable", "effective", "ambient"];
    let add = |set| SpecEdit::add(&["process", "capabilities", set], ["CAP_NET_RAW"]);
    let mut all: Vec<_> = sets.into_iter().map(add).collect();
    all.extend([
        SpecEdit::add(&["mounts", "/data", "options"], ["noexec"]),
        SpecEdit::set(&["linux", "resources", "unified", "memory.high"], "1"),
        SpecEdit::set(&["linux", "resources", "hugepageLimits", "2MB"], json!({"limit": 4})),
    ]);
    let edits = OciEdits {
        mapped_mounts: vec![mapped("/data", false)],
        moved_devices: vec![("/dev/b".to_owned(), "/dev/a".to_owned())],
        edits: all,
        ..OciEdits::default()
    };
    assert_eq!(edit::mapped_mounts(&document(), &edits), [(1, "/srv/data", 0)]);
    let mounted = Mounted { root: None, sources: vec![(1, "/run/m".into())] };
    let document = edited(&edits, &mounted);
    assert_eq!(document["mounts"][1]["source"], "/run/m");
    assert_eq!(document["mounts"][1]["options"], json!(["rbind", "noexec"]));
    assert_eq!(document["mounts"][2]["destination"], "/dev/b");
    assert_eq!(document["linux"]["devices"], json!([{"path": "/dev/c", "type": "c"}]));
    let capabilities = &document["process"]["capabilities"];
    assert_eq!(capabilities["bounding"], json!(["CAP_CHOWN", "CAP_NET_RAW"]));
    for set in ["permitted", "inheritable", "effective", "ambient"] {
        assert_eq!(capabilities[set], json!(["CAP_NET_RAW"]), "{set}");
    }
    let resources = &document["linux"]["resources"];
    assert_eq!(resources["unified"], json!({"memory.high": "1"}));
    assert_eq!(resources["hugepageLimits"], json!([{"pageSize": "2MB", "limit": 4}]));
}

/// For a device of a request that is a directory, the engine writes each device below it to `config.json`.
#[test]
fn in_a_directory_with_devices_only_the_devices_are_bound() {
    let moved_devices = vec![("/dev/d/".to_owned(), "/dev/host".to_owned())];
    let edits = OciEdits { moved_devices, ..OciEdits::default() };
    let mut document = document();
    let (one, two, other) = ("/dev/d/one", "/dev/d/sub/two", "/dev/dd");
    document["linux"]["devices"] = json!([{"path": one}, {"path": two}, {"path": other}]);
    edit::edit(&mut document, &edits, &Mounted::default()).unwrap();
    assert_eq!(document["linux"]["devices"], json!([{"path": other}]));
    let mounts = document["mounts"].as_array().unwrap();
    let places = |mount: &Value| (mount["source"].clone(), mount["destination"].clone());
    let binds: Vec<_> = mounts.iter().skip(2).map(places).collect();
    let wanted = [(json!("/dev/host/one"), json!(one)), (json!("/dev/host/sub/two"), json!(two))];
    assert_eq!(binds, wanted);
}

#[test]
fn a_document_that_is_no_container_is_an_error() {
    let namespace = SpecEdit::set(&["linux", "namespaces", "user"], json!({}));
    let edits = OciEdits { users: Some(mappings()), ..edits_of([namespace]) };
    for mut document in
        [json!(null), json!([]), json!({"linux": 1}), json!({"linux": {"namespaces": {}}})]
    {
        assert!(edit::edit(&mut document, &edits, &Mounted::default()).is_err(), "{document}");
    }
    let missing = edits_of([SpecEdit::add(&["mounts", "/none", "options"], ["ro"])]);
    let refused = edit::edit(&mut document(), &missing, &Mounted::default()).unwrap_err();
    assert!(refused.to_string().contains("/none"), "{refused}");
    let nowhere = edits_of([SpecEdit::remove(&[])]);
    assert!(edit::edit(&mut document(), &nowhere, &Mounted::default()).is_err());
}

/// The option `dev` in a request does not override `nodev` on an image volume. An entry in `mapped_mounts` for a
/// missing mount has no effect.
#[test]
fn images_and_their_volumes_are_without_devices() {
    let option = SpecEdit::add(&["mounts", "/data", "options"], ["dev"]);
    let mapped_mounts = vec![mapped("/data", true), mapped("/none", true)];
    let mounted = Mounted { root: None, sources: vec![(1, "/run/m".into())] };
    let mut edits = OciEdits { mapped_mounts, ..edits_of([option]) };
    let document = edited(&edits, &mounted);
    assert_eq!(document["mounts"][1]["options"], json!(["rbind", "dev", "nodev"]));
    assert_eq!(document["mounts"].as_array().unwrap().len(), 2);
    // If an NRI plugin replaces the image volume with another mount, the plugin's mount stays unchanged.
    let other = json!({"type": "bind", "source": "/srv/other", "options": ["rbind"]});
    edits.edits.push(SpecEdit::set(&["mounts", "/data"], other));
    assert_eq!(edited(&edits, &mounted)["mounts"][1]["options"], json!(["rbind"]));
}

#[test]
fn a_program_with_a_filter_of_its_own_gets_no_other() {
    let edits = edits_of([SpecEdit::remove(&["linux", "seccomp"])]);
    for mut document in
        [json!({"linux": {"seccomp": {"defaultAction": "SCMP_ACT_ERRNO"}}}), json!({"linux": {}})]
    {
        edit::edit(&mut document, &edits, &Mounted::default()).unwrap();
        assert_eq!(document, json!({"linux": {}}));
    }
}

/// An edit that removes the seccomp filter does not fail on an invalid document: runc reports the document's error.
#[test]
fn a_document_without_a_filter_to_leave_out_stays_as_it_is() {
    let no_seccomp = SpecEdit::remove(&["linux", "seccomp"]);
    let edits = OciEdits { own_pause: true, ..edits_of([no_seccomp]) };
    for odd in [
        json!({}),
        json!({"linux": null}),
        json!({"linux": []}),
        json!({"linux": "seccomp", "mounts": {}}),
        json!({"linux": {}, "mounts": null}),
        json!({"linux": {"seccomp ": {}, "namespaces": []}, "mounts": [null, 1, [], {}]}),
        json!([{"linux": {"seccomp": {}}}]),
        json!(null),
    ] {
        let mut document = odd.clone();
        edit::edit(&mut document, &edits, &Mounted::default()).unwrap();
        assert_eq!(document, odd);
    }
    let mut document = json!({"linux": {"seccomp": null, "x": 1}});
    edit::edit(&mut document, &edits, &Mounted::default()).unwrap();
    assert_eq!(document, json!({"linux": {"x": 1}}));
}

/// The dockbridge server and dockbridge-runtime may have different versions. If the file with edits has an
/// unsupported version, the container must not start without its edits.
#[test]
fn edits_of_another_version_are_refused_where_they_are_needed() {
    let (folder, directory, bundle) = directories();
    fs::write(bundle.join("config.json"), "{}").unwrap();
    let (process, text) = (folder.path().join("process.json"), "{\"env\":[\"A=1\"]}");
    fs::write(&process, text).unwrap();
    let exec = CommandLine { id: ID.to_owned(), process: Some(process), ..CommandLine::default() };
    directory.write(ID, &OciEdits::default()).unwrap();
    for (version, hint) in
        [(1, "must be replaced, so delete its pod"), (5, "reads only up to version")]
    {
        let fields = json!({"version": version, "engine": "e"});
        fs::write(directory.file(ID), fields.to_string()).unwrap();
        let refused = create::prepare(&directory, ID, &bundle).unwrap_err().to_string();
        assert!(refused.contains(hint), "{refused}");
        let refused = execute::change_command(&exec, &directory).unwrap_err().to_string();
        assert!(refused.contains(hint), "{refused}");
        assert_eq!(directory.engine(ID).unwrap().as_deref(), Some("e"), "the sweep knows it");
    }
    assert_eq!(fs::read_to_string(exec.process.unwrap()).unwrap(), text);
}

#[test]
fn commands_get_what_the_process_of_the_container_has() {
    let (folder, directory, _) = directories();
    let process = folder.path().join("process.json");
    fs::write(&process, "{\"env\":[\"A=1\",\"B=1\"],\"cwd\":\"/\"}").unwrap();
    let exec = CommandLine { id: ID.to_owned(), process: Some(process), ..CommandLine::default() };
    let edits = edits_of([
        SpecEdit::set(&["process", "env", "A"], "2"),
        SpecEdit::set(&["process", "args"], json!(["other"])),
        SpecEdit::add(&["process", "user", "additionalGids"], [7]),
        SpecEdit::add(&["process", "capabilities", "ambient"], ["CAP_CHOWN"]),
        SpecEdit::add(&["mounts", "/none", "options"], ["ro"]),
    ]);
    directory.write(ID, &edits).unwrap();
    execute::change_command(&exec, &directory).unwrap();
    let changed: Value = serde_json::from_slice(&fs::read(exec.process.unwrap()).unwrap()).unwrap();
    let wanted = json!({
        "env": ["A=2", "B=1"], "cwd": "/", "user": {"additionalGids": [7]},
        "capabilities": {"ambient": ["CAP_CHOWN"]},
    });
    assert_eq!(changed, wanted);
}

/// If `edits.json` or `config.json` is half-written, empty or not JSON, `prepare` changes nothing and mounts nothing.
#[test]
fn edits_or_documents_that_cannot_be_read_refuse_the_container() {
    let (_folder, directory, bundle) = directories();
    let config = bundle.join("config.json");
    let deep = "[".repeat(100_000);
    let namespace = SpecEdit::set(&["linux", "namespaces", "user"], json!({}));
    let edits = OciEdits { users: Some(mappings()), ..edits_of([namespace]) };
    let mut whole = serde_json::to_value(&edits).unwrap();
    whole["version"] = json!(VERSION);
    let whole = whole.to_string();
    let document = document().to_string();
    for (edits, text) in [
        ("", document.as_str()),
        ("{", &document),
        (whole.strip_suffix('}').unwrap(), &document),
        ("null", &document),
        ("[]", &document),
        ("{\"version\": 2, \"own_pause\": 1}", &document),
        ("{\"version\": 2, \"own_pause\": null}", &document),
        ("{\"version\": 2, \"edits\": [{\"replace\": {\"at\": []}}]}", &document),
        (&deep, &document),
        (&" ".repeat((4 << 20) + 1), &document),
        (&whole, ""),
        (&whole, document.split_at(document.len() / 2).0),
        (&whole, &deep),
        (&whole, "[]"),
        (&whole, "{}"),
        (&whole, "{\"root\": {\"path\": \"nowhere\"}}"),
    ] {
        directory.write(ID, &OciEdits::default()).unwrap();
        fs::write(directory.file(ID), edits).unwrap();
        fs::write(&config, text).unwrap();
        let start: String = edits.chars().take(40).collect();
        assert!(create::prepare(&directory, ID, &bundle).is_err(), "{start}");
        assert_eq!(fs::read_to_string(&config).unwrap(), text, "{start}");
        assert!(!directory.has_mounts(ID), "{start}");
        directory.remove(ID).unwrap();
        assert!(!directory.of(ID).exists());
    }
}

#[test]
fn a_pause_keeps_what_runc_needs_mounted() {
    let mut document = json!({"mounts": [
        {"destination": "/proc", "type": "proc"},
        {"destination": "/dev", "type": "tmpfs"},
        {"destination": "/sys/fs/cgroup", "type": "cgroup"},
        {"destination": "/dev/shm", "type": "bind"},
    ]});
    let edits = OciEdits { own_pause: true, ..OciEdits::default() };
    edit::edit(&mut document, &edits, &Mounted::default()).unwrap();
    let kept = document["mounts"].as_array().unwrap().iter().map(|mount| &mount["destination"]);
    assert_eq!(kept.collect::<Vec<_>>(), ["/proc", "/dev"]);
}

fn directories() -> (tempfile::TempDir, EditsDirectory, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let directory = EditsDirectory::new(folder.path().join("edits"));
    let bundle = folder.path().join("bundle");
    fs::create_dir(&bundle).unwrap();
    (folder, directory, bundle)
}

/// In a user namespace, the kernel allows mounting a sysfs only for a network namespace that belongs to this user
/// namespace.
#[test]
fn a_user_namespace_in_the_hosts_network_binds_the_hosts_sysfs() {
    for (given, access) in [("ro", "rro"), ("rw", "rw")] {
        let sysfs =
            json!({"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": [given]});
        let mut own = document();
        own["mounts"].as_array_mut().unwrap().push(sysfs.clone());
        let (mut host, edits) =
            (own.clone(), OciEdits { users: Some(mappings()), ..OciEdits::default() });
        edit::edit(&mut own, &edits, &Mounted::default()).unwrap();
        assert_eq!(own["mounts"][2], sysfs);
        let edits = OciEdits {
            edits: vec![SpecEdit::remove(&["linux", "namespaces", "network"])],
            ..edits
        };
        edit::edit(&mut host, &edits, &Mounted::default()).unwrap();
        let options = json!(["rbind", access, "nosuid", "nodev", "noexec"]);
        let bound =
            json!({"destination": "/sys", "type": "bind", "source": "/sys", "options": options});
        assert_eq!(host["mounts"][2], bound);
    }
}

#[test]
fn the_bundle_of_a_container_without_edits_stays_as_it_is() {
    let (_folder, directory, bundle) = directories();
    let text = "{\"odd\":   \"spacing\", \"note\": \"io.dockbridge.edits in a text\"}";
    fs::write(bundle.join("config.json"), text).unwrap();
    assert!(!create::prepare(&directory, ID, &bundle).unwrap());
    assert_eq!(fs::read_to_string(bundle.join("config.json")).unwrap(), text);
    assert!(!directory.of(ID).exists());
    fs::write(bundle.join("config.json"), "no JSON: for runc to report").unwrap();
    assert!(!create::prepare(&directory, ID, &bundle).unwrap());
}

#[test]
fn a_container_that_lost_its_edits_does_not_start() {
    let (_folder, directory, bundle) = directories();
    let marked = json!({"annotations": {REQUIRED_ANNOTATION: "1"}, "mounts": []});
    fs::write(bundle.join("config.json"), marked.to_string()).unwrap();
    for command in ["create", "run", "restore"].map(str::to_owned) {
        let (id, bundle, runtime) = (ID.to_owned(), bundle.clone(), vec!["true".into()]);
        let line = CommandLine { command, id, bundle, runtime, ..CommandLine::default() };
        let refused = execute::run(line, &directory, &|_| None).unwrap_err().to_string();
        assert!(refused.contains(ID) && refused.contains("edits.json"), "{refused}");
    }
    directory.write(ID, &OciEdits::default()).unwrap();
    assert!(!create::prepare(&directory, ID, &bundle).unwrap(), "nothing is mounted for it");
}

#[test]
fn edits_that_others_could_write_are_not_trusted() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, directory, bundle) = directories();
    fs::write(bundle.join("config.json"), "{}").unwrap();
    directory.write(ID, &OciEdits::default()).unwrap();
    for (path, mode) in [(directory.file(ID), 0o666), (directory.of(ID), 0o777)] {
        let before = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let refused = create::prepare(&directory, ID, &bundle).unwrap_err().to_string();
        assert!(refused.contains("not trusted"), "{refused}");
        fs::set_permissions(&path, before).unwrap();
    }
    create::prepare(&directory, ID, &bundle).unwrap();
}

/// A container's directory has its mounts, so only root and the group of the pod's mapped root may enter it.
#[test]
fn only_root_and_the_pods_root_reach_what_is_mounted() {
    use std::os::unix::fs::MetadataExt as _;
    let (_folder, directory, _) = directories();
    let edits = OciEdits { users: Some(mappings()), ..OciEdits::default() };
    if !nix::unistd::geteuid().is_root() {
        return crate::skips::skip(crate::skips::Lack::SysAdmin);
    }
    for (edits, group, mode) in [(OciEdits::default(), 0, 0o700), (edits, 100_000, 0o710)] {
        directory.write(ID, &edits).unwrap();
        let facts = fs::metadata(directory.of(ID)).unwrap();
        assert_eq!((facts.uid(), facts.mode() & 0o777), (nix::unistd::geteuid().as_raw(), mode));
        assert_eq!(facts.gid(), group);
        let mounts = directory.mount_point(ID, 0).unwrap();
        let facts = fs::metadata(mounts.parent().unwrap()).unwrap();
        assert_eq!(facts.mode() & 0o777, 0o711, "nobody else gets that far");
    }
}

/// In this test `unmount` cannot remove the mount point, because it is a directory that is not empty.
#[test]
fn what_cannot_be_unmounted_does_not_change_how_the_runtime_below_ended() {
    let (_folder, directory, _) = directories();
    let id = "a".repeat(64);
    fs::create_dir_all(directory.of(&id).join("root/foreign")).unwrap();
    assert!(directory.unmount(&id).is_err());
    for (runtime, ended) in [("true", ExitCode::SUCCESS), ("false", ExitCode::from(1))] {
        let (runtime, command) = (vec![runtime.into()], "delete".to_owned());
        let line = CommandLine { runtime, command, id: id.clone(), ..CommandLine::default() };
        let code = execute::run(line, &directory, &|_| None).unwrap();
        assert_eq!(format!("{code:?}"), format!("{ended:?}"));
    }
}

#[test]
fn everything_of_a_container_is_removed() {
    let (_folder, directory, _) = directories();
    directory.remove(ID).unwrap();
    assert_eq!(directory.ids().unwrap(), Vec::<String>::new());
    directory.write(ID, &OciEdits::default()).unwrap();
    assert_eq!(directory.ids().unwrap(), [ID]);
    assert_eq!(directory.read(ID).unwrap(), Some(OciEdits::default()));
    directory.remove(ID).unwrap();
    assert_eq!(directory.ids().unwrap(), Vec::<String>::new());
}
