//! Tests of restores through the commands of dockbridge-runtime, with a script in place of the lower runtime.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::ExitCode,
    thread::sleep,
    time::{Duration, Instant},
};

use nix::libc;

use super::fixture;
use crate::{
    host::processes::Processes,
    model::oci_edits::OciEdits,
    oci_runtime::{
        command_line::CommandLine, directory::EditsDirectory, execute, restore::run::check_runtime,
    },
};

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

struct Place {
    folder: tempfile::TempDir,
    directory: EditsDirectory,
}

impl Place {
    /// Writes a bundle, a dump, and a lower runtime that records its arguments and then runs `script`.
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let directory = EditsDirectory::new(at("edits"));
        fs::create_dir_all(at("bundle/rootfs")).unwrap();
        let mut config = fixture().1;
        config["linux"].as_object_mut().unwrap().remove("seccomp");
        // The fixture's other masked and read-only paths have no mount in the dump, but might exist on this machine.
        config["linux"]["maskedPaths"] =
            serde_json::json!(["/proc/keys", "/proc/acpi", "/proc/timer_list", "/sys/firmware"]);
        config["linux"]["readonlyPaths"] =
            serde_json::json!(["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"]);
        fs::write(at("bundle/source"), "").unwrap();
        fs::create_dir(at("bundle/volume")).unwrap();
        for mount in config["mounts"].as_array_mut().unwrap() {
            let is_directory =
                mount["destination"] == "/data" || mount["destination"] == "/dev/shm";
            let source = if is_directory { "bundle/volume" } else { "bundle/source" };
            mount["source"] = serde_json::json!(at(source));
        }
        fs::write(at("bundle/config.json"), config.to_string()).unwrap();
        fs::write(at("bundle/rootfs/gone"), "").unwrap();
        let program = at("runtime");
        let text = format!("#!/bin/sh\necho \"$@\" >>{}\n{script}\n", at("seen").display());
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let runtime = vec![program.display().to_string()];
        let edits = OciEdits { restore: Some(at("dump")), runtime, ..OciEdits::default() };
        directory.write(ID, &edits).unwrap();
        let place = Self { folder, directory };
        place.unpack();
        place
    }

    fn unpack(&self) {
        let dump = self.path("dump");
        fs::create_dir_all(dump.join("checkpoint")).unwrap();
        for (name, bytes) in fixture().0.contents {
            fs::write(dump.join("checkpoint").join(name), bytes).unwrap();
        }
        fs::write(dump.join("checkpoint/cgroup.img"), "old").unwrap();
        fs::write(dump.join("deleted.files"), "[\"/gone\"]").unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, command: &str) -> Result<ExitCode, String> {
        let bundle = self.path("bundle").display().to_string();
        let words = format!("--root /r {command}").replace("BUNDLE", &bundle);
        let line = CommandLine::read(words.split(' ').map(Into::into));
        execute::run(line, &self.directory, &|_| None).map_err(|error| error.to_string())
    }

    fn seen(&self) -> String {
        fs::read_to_string(self.path("seen")).unwrap_or_default()
    }
}

#[test]
fn a_create_becomes_a_restore_once() {
    let place = Place::new("");
    place.run(&format!("create --bundle BUNDLE --pid-file /p {ID}")).unwrap();
    let (dump, bundle) = (place.path("dump"), place.path("bundle"));
    let taken = place.path(&format!("taken-{}", std::process::id()));
    let wanted = format!(
        "--root /r restore --detach --file-locks --image-path {0}/checkpoint --work-path {0} --bundle {1} \
         --pid-file /p {ID}\n",
        taken.display(),
        bundle.display()
    );
    assert_eq!(place.seen(), wanted);
    assert!(!dump.exists() && !taken.exists() && !bundle.join("rootfs/gone").exists());
    // dockbridge-runtime does not ask the lower runtime to start a restored container, which already runs.
    let started = place.run(&format!("start {ID}")).unwrap();
    assert_eq!(format!("{started:?}"), format!("{:?}", ExitCode::SUCCESS));
    assert_eq!(place.seen(), wanted);
    assert_eq!(place.directory.restore(ID).unwrap(), None, "the next start is a fresh one");
    // A container that was started is not restored again, even if the server has unpacked the container
    // checkpoint again.
    fs::create_dir(&dump).unwrap();
    assert_eq!(place.directory.restore(ID).unwrap(), None);
    place.directory.mark_restored(ID).unwrap();
    // The lower runtime is not executable here: otherwise it would replace the test process.
    let mode = fs::Permissions::from_mode(0o644);
    fs::set_permissions(place.path("runtime"), mode).unwrap();
    place.run(&format!("create --bundle BUNDLE {ID}")).unwrap_err();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    assert_ne!(u64::from_str_radix(ignored, 16).unwrap() & 1 << (libc::SIGPIPE - 1), 0);
    assert!(!place.directory.take_restored(ID).unwrap());
    place.directory.remove(ID).unwrap();
    assert!(!place.directory.of(ID).exists());
}

#[test]
fn a_runc_that_would_restore_without_limits_is_refused() {
    let checked = |version: &str| {
        let features =
            serde_json::json!({"annotations": {"org.opencontainers.runc.version": version}});
        check_runtime(features.to_string().as_bytes()).map_err(|error| error.to_string())
    };
    for old in ["1.1.0-rc.1", "1.1.15+ds1", "1.1.15"] {
        let refused = checked(old).unwrap_err();
        assert!(refused.contains(old) && refused.contains("runc 1.2"), "{refused}");
    }
    for right in ["1.2.0", "1.3.6+ds1", "1.10.0", "2.0.0-rc.1", ""] {
        checked(right).unwrap();
    }
    // crun's features do not have the annotation with runc's version. runc 1.0 does not have the command `features`.
    check_runtime(b"{}").unwrap();
    check_runtime(b"").unwrap_err();
}

#[test]
fn a_failed_restore_says_what_criu_said_and_can_be_repeated() {
    let place = Place::new(
        "d=$7; echo '(00.1) Error (criu/x.c:1): no such pid' >$(dirname $d)/restore.log; exit 1",
    );
    let create = format!("create --bundle BUNDLE {ID}");
    for _ in 0..2 {
        place.unpack();
        let failed = place.run(&create).unwrap_err();
        assert!(
            failed.contains("CRIU cannot restore the checkpoint: Error (criu/x.c:1)"),
            "{failed}"
        );
        // The dump, which has the memory of the processes, is also removed after a failed restore.
        let names = fs::read_dir(place.folder.path()).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert!(
            !names
                .iter()
                .any(|name| name == "dump" || name.as_encoded_bytes().starts_with(b"taken"))
        );
        assert!(!place.directory.take_restored(ID).unwrap());
    }
    // If the server has not unpacked the container checkpoint again after a failed restore, the next start fails, and
    // does not run the program from its beginning.
    let seen = place.seen();
    let failed = place.run(&create).unwrap_err();
    assert!(failed.contains("cannot start from the container checkpoint in"), "{failed}");
    assert_eq!(place.seen(), seen);
}

/// The script hangs, as CRIU does when it opens a file of a volume that another container has replaced with a named
/// pipe.
#[test]
fn a_restore_that_hangs_is_ended_with_what_criu_did_last() {
    let place = Place::new(
        "d=$(dirname $7); echo '(00.1) pie: 1: Opening /data/count' >$d/restore.log; \
         mkfifo $d/pipe; setsid sh -c \"cat $d/pipe\" & wait",
    );
    let failed = place.run(&format!("create --bundle BUNDLE {ID}")).unwrap_err();
    let wanted = "CRIU cannot restore the checkpoint: CRIU had not ended after 5s: pie: 1: Opening /data/count";
    assert_eq!(failed, wanted);
    let taken = place.path(&format!("taken-{}", std::process::id()));
    assert!(!taken.exists() && !place.directory.take_restored(ID).unwrap());
    let processes = Processes::new("/proc");
    let pipe = taken.join("pipe").display().to_string();
    let is_reader = |pid| processes.command_line(pid).contains(&pipe);
    let is_read = || processes.all().unwrap().iter().any(|process| is_reader(process.who.pid));
    let until = Instant::now() + Duration::from_secs(10);
    while is_read() {
        assert!(Instant::now() < until, "CRIU still waits for the pipe");
        sleep(Duration::from_millis(5));
    }
}

/// The time limit of a restore includes its preparation. In this test the lower runtime hangs, as a stand-in for a
/// volume's disk that does not answer.
#[test]
fn a_preparation_that_hangs_is_given_up() {
    let place = Place::new("exec sleep 20");
    let path = place.path("bundle/config.json");
    let mut config: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    config["linux"]["seccomp"] = serde_json::json!({ "defaultAction": "SCMP_ACT_ALLOW" });
    fs::write(&path, config.to_string()).unwrap();
    let begun = Instant::now();
    let failed = place.run(&format!("create --bundle BUNDLE {ID}")).unwrap_err();
    assert!(failed.contains("was not prepared after 5s"), "{failed}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(place.seen().contains("-filter"), "{}", place.seen());
}

#[test]
fn the_container_for_the_filter_is_removed_with_the_other_one() {
    let place = Place::new("exit 1");
    let filter = place.directory.filter(ID);
    fs::create_dir(&filter).unwrap();
    fs::write(filter.join("config.json"), "{}").unwrap();
    // The container has a mount: otherwise the lower runtime would replace the test process.
    fs::create_dir_all(place.directory.mount_point(ID, 0).unwrap()).unwrap();
    place.run(&format!("delete --force {ID}")).unwrap();
    assert_eq!(
        place.seen(),
        format!("--root /r delete --force {ID}-filter\n--root /r delete --force {ID}\n")
    );
    assert!(!filter.exists());
    // The server also removes the files of the auxiliary container if dockbridge-runtime has not removed them.
    fs::create_dir(&filter).unwrap();
    fs::write(filter.join("pid"), "").unwrap();
    place.directory.remove(ID).unwrap();
    assert!(!place.directory.of(ID).exists());
}

#[test]
fn nothing_runs_if_the_checkpoint_is_refused() {
    let refused = |change: &dyn Fn(&Path)| {
        let place = Place::new("");
        change(&place.path("dump"));
        let refused = place.run(&format!("create --bundle BUNDLE {ID}")).unwrap_err();
        assert_eq!(place.seen(), "", "{refused}");
        assert!(place.path("bundle/rootfs/gone").exists(), "{refused}");
        refused
    };
    let unknown = refused(&|dump| fs::write(dump.join("checkpoint/iptables-10.img"), "").unwrap());
    assert!(unknown.contains("iptables-10.img, which dockbridge cannot restore"), "{unknown}");
    let more =
        refused(&|dump| fs::remove_file(dump.join("checkpoint/mountpoints-13.img")).unwrap());
    assert!(more.contains("does not fit the new container"), "{more}");
    let large = refused(&|dump| {
        for number in 0..3 {
            let path = dump.join(format!("checkpoint/tmpfs-dev-{number}.tar.gz.img"));
            fs::File::create(path).unwrap().set_len(60 << 20).unwrap();
        }
    });
    assert!(large.contains("cannot read"), "{large}");
    let pipe = refused(&|dump| {
        let path = dump.join("checkpoint/core-7.img");
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
    });
    assert!(pipe.contains("core-7.img"), "{pipe}");
}

#[test]
fn a_mount_is_where_a_link_of_the_image_leads() {
    let place = Place::new("");
    let path = place.path("bundle/config.json");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(&path, config.replace("\"/data\"", "\"/var/run/data\"")).unwrap();
    fs::create_dir(place.path("bundle/rootfs/var")).unwrap();
    symlink("/", place.path("bundle/rootfs/var/run")).unwrap();
    place.run(&format!("create --bundle BUNDLE {ID}")).unwrap();
}

#[test]
fn a_link_in_the_way_of_criu_is_refused() {
    let refused = |change: &dyn Fn(&Place)| {
        let place = Place::new("");
        change(&place);
        let refused = place.run(&format!("create --bundle BUNDLE {ID}")).unwrap_err();
        assert_eq!(place.seen(), "", "{refused}");
        refused
    };
    // The container checkpoint's changed files contain a link in the path of /bin/sh or of a mount point.
    for (link, file) in [("bin", "bin/sh"), ("etc", "etc/hosts"), ("dev", "dev")] {
        let text = refused(&|place| {
            let mut archive = tar::Builder::new(Vec::new());
            let mut header = tar::Header::new_gnu();
            let own = fs::metadata(place.path("dump")).unwrap();
            header.set_uid(own.uid().into());
            header.set_gid(own.gid().into());
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            header.set_mode(0o777);
            archive.append_link(&mut header, link, "/proc/self/fd").unwrap();
            fs::write(place.path("dump/rootfs-diff.tar"), archive.into_inner().unwrap()).unwrap();
        });
        assert!(text.contains(&format!("/bundle/rootfs/{file}: ")), "{file}: {text}");
    }
    let volume = refused(&|place| {
        symlink("/proc/self", place.path("bundle/volume/count")).unwrap();
    });
    assert!(volume.contains("/bundle/volume/count: "), "{volume}");
}
