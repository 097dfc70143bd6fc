//! Tests of the findings of `dockbridge check` about different hosts and engines.

use std::{
    collections::BTreeMap,
    fs,
    os::{
        fd::AsRawFd as _,
        unix::{fs::PermissionsExt as _, net::UnixListener},
    },
    path::{Path, PathBuf},
};

use nix::sys::socket::{Shutdown, shutdown};

mod pod;

use super::{
    capability, cni, engine,
    finding::{Finding, Findings, Severity},
    host::{self, Progress},
    node::Packets,
    paths, plugins, server,
    subject::Subject,
    takeover,
};
use crate::{
    config::{
        resolve::resolve,
        settings::{CniSettings, NriSettings, Settings},
    },
    engine::lock::EngineLocks,
    host::{error::HostError, lock::Holder},
    model::{
        engine::{ApiVersion, CgroupDriver, EngineInfo, OciRuntime},
        listen::Listen,
        oci_edits::RUNTIME,
    },
    network::cni::{
        config::NetworkConfigList,
        config_directory::{SelectedConfig, Selection},
    },
};

#[test]
fn a_report_ends_with_its_verdict() {
    let ready = Findings(vec![Finding::ok(Subject::Engine, "is there")]);
    assert_eq!(ready.to_string(), "OK    engine        is there\nThis host is ready.\n");
    let warned = Findings(vec![Finding::warn(Subject::Cgroup, "odd", "mend it")]);
    let text = warned.to_string();
    assert!(text.contains("WARN  cgroup        odd\n                    -> mend it\n"), "{text}");
    assert!(text.ends_with("This host is ready, with 1 warning.\n"), "{text}");
    let failed = Findings(vec![
        Finding::fail(Subject::State, "b", "c"),
        Finding::fail(Subject::Run, "b", "c"),
    ]);
    assert!(failed.to_string().ends_with("This host is not ready: 2 failures.\n"));
    assert_eq!(failed.worst(), Severity::Fail);
}

#[test]
fn cgroups_are_judged_with_their_kind() {
    let severity = |driver, version, systemd| {
        let info = EngineInfo { cgroup_driver: driver, cgroup_version: version, ..info() };
        let findings = engine::judge(Path::new("/s"), &info, systemd);
        findings.into_iter().find(|finding| finding.subject == Subject::Cgroup).unwrap().severity
    };
    assert_eq!(severity(CgroupDriver::Systemd, 2, true), Severity::Ok);
    assert_eq!(severity(CgroupDriver::Cgroupfs, 2, false), Severity::Ok);
    assert_eq!(severity(CgroupDriver::Cgroupfs, 2, true), Severity::Warn);
    assert_eq!(severity(CgroupDriver::Cgroupfs, 1, false), Severity::Warn);
    assert_eq!(severity(CgroupDriver::None, 2, false), Severity::Fail);
}

#[test]
fn the_engines_dockbridge_runtime_is_told() {
    let all = |info: &EngineInfo| {
        let findings = engine::judge(Path::new("/s"), info, false).into_iter();
        findings.filter(|finding| finding.subject == Subject::OciRuntime).collect::<Vec<_>>()
    };
    let told = |info: &EngineInfo| all(info).remove(0);
    let with = |path: &str| {
        let runtime = OciRuntime { path: path.to_owned(), ..OciRuntime::default() };
        let runtimes = [(RUNTIME.to_owned(), runtime)].into();
        EngineInfo { api: ApiVersion::ANNOTATIONS, runtimes, ..info() }
    };
    let without = EngineInfo { api: ApiVersion::ANNOTATIONS, ..info() };
    assert!(told(&without).seen.contains("`dockbridge setup`"));
    assert!(told(&EngineInfo { api: ApiVersion::OLDEST, ..info() }).seen.contains("Docker 24.0"));
    let gone = told(&with("/no/such"));
    assert_eq!(all(&with("/no/such")).len(), 1);
    assert_eq!(gone.severity, Severity::Fail);
    assert!(gone.seen.contains("/no/such, which does not exist"), "{}", gone.seen);
    for found in ["/bin/sh", "found-in-path"] {
        assert_eq!(told(&with(found)).severity, Severity::Ok, "{found}");
    }
    let other = EngineInfo { default_runtime: "crun".to_owned(), ..with("/bin/sh") };
    assert_eq!(told(&other).severity, Severity::Warn);
    let runc = ["version", "commit"].map(|name| (format!("org.opencontainers.runc.{name}"), "1"));
    let features = Some(serde_json::json!({"annotations": BTreeMap::from(runc)}));
    let mut gpu = EngineInfo { default_runtime: "nvidia".to_owned(), ..with("/bin/sh") };
    let nvidia = OciRuntime { path: "/bin/true".to_owned(), features, ..OciRuntime::default() };
    gpu.runtimes.insert("nvidia".to_owned(), nvidia);
    assert!(told(&gpu).seen.starts_with("/bin/sh runs /bin/true; "), "{}", told(&gpu).seen);
    // If the path of a runtime is wrong, the engine starts, but no pod starts with that runtime.
    gpu.runtimes.get_mut("nvidia").unwrap().path = "/no/nvidia".to_owned();
    assert!(told(&gpu).seen.contains("runtime \"nvidia\" is /no/nvidia, which does not exist"));
    assert_eq!(told(&gpu).severity, Severity::Fail);
    assert_eq!(all(&gpu).len(), 1, "it cannot be used");
    gpu.default_runtime = "runc".to_owned();
    assert_eq!(told(&gpu).severity, Severity::Warn);
}

#[test]
fn nri_plugins_are_judged_where_they_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let (plugins, configurations) = (path("plugins"), path("conf.d"));
    fs::create_dir_all(&plugins).unwrap();
    fs::create_dir_all(&configurations).unwrap();
    for (name, mode) in [
        ("10-good", 0o755),
        ("20-open", 0o777),
        ("bad", 0o755),
        ("30-text", 0o644),
        ("40-conf", 0o755),
    ] {
        fs::write(plugins.join(name), "").unwrap();
        fs::set_permissions(plugins.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::write(configurations.join("conf.conf"), [0xff]).unwrap();
    fs::write(path("file"), "").unwrap();
    let settings = NriSettings {
        enabled: true,
        socket: path("nri/nri.sock"),
        plugin_dir: plugins,
        config_dir: configurations,
        required: ["good", "20-open", "quota"].map(str::to_owned).to_vec(),
        ..NriSettings::default()
    };
    let told = |settings: &NriSettings| Findings(plugins::examine(settings, Some(&info()), None));
    let text = told(&settings).to_string();
    for expected in [
        "nri.sock; plugins that dockbridge starts from",
        "plugins: 10-good, 20-open\n",
        "/bad: the plugin's index is not two digits",
        "/30-text: the file is not executable",
        "/40-conf: ",
        "conf.conf is not UTF-8 text",
        "users other than root can change ",
        "required NRI plugins that dockbridge does not start: quota",
        "in pods without a runtime handler, NRI plugins can change only limits: ",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("is not a socket"), "{text}");
    let taken = NriSettings { socket: path("file"), ..settings.clone() };
    assert!(told(&taken).to_string().contains("/file exists and is not a socket"));
    let twice = EngineInfo { serves_nri: true, ..info() };
    let twice = Findings(plugins::examine(&settings, Some(&twice), None)).to_string();
    assert!(twice.contains("Docker also serves NRI plugins"), "{twice}");
    assert_eq!(told(&NriSettings { enabled: false, ..settings }), Findings::default());
}

#[test]
fn an_engine_of_another_host_is_seen() {
    let seen = |info: &EngineInfo| Findings(engine::judge(Path::new("/s"), info, false)).worst();
    assert_eq!(seen(&info()), Severity::Ok);
    assert_eq!(seen(&EngineInfo { root_dir: PathBuf::from("/no/such"), ..info() }), Severity::Fail);
    assert_eq!(seen(&EngineInfo { live_restore: false, ..info() }), Severity::Warn);
    let warned =
        EngineInfo { warnings: vec!["WARNING: No swap limit support".to_owned()], ..info() };
    let text = Findings(engine::judge(Path::new("/s"), &warned, false)).to_string();
    assert!(text.contains("WARN  engine        No swap limit support"), "{text}");
}

#[test]
fn pods_that_are_taken_over_are_counted() {
    let pod = |severity| Finding { severity, ..Finding::ok(Subject::Pod, "default/web runs") };
    let orphans = Finding::warn(Subject::Runtimes, "of no pod: k8s_a", "none");
    let told =
        |findings: &[Finding]| takeover::summary(&Findings(findings.to_vec()), takeover::WAY_BACK);
    let none = told(std::slice::from_ref(&orphans));
    assert!(none.starts_with("No pods exist") && none.contains("The way back: "), "{none}");
    let two = told(&[pod(Severity::Ok), orphans, pod(Severity::Warn)]);
    assert!(two.starts_with("Pods: 1 kept, 1 recreated.\n"), "{two}");
}

#[tokio::test]
async fn an_engine_that_is_not_there_is_a_failure() {
    let absent = engine::ask(Path::new("/no/such.sock")).await.unwrap_err();
    assert_eq!(absent.severity, Severity::Fail);
    assert!(absent.seen.contains("/no/such.sock"), "{absent:?}");
    assert!(!absent.advice.contains("--docker"), "the advice is in what was seen: {absent:?}");
}

/// A fake engine accepts connections, does not answer, and closes its socket when the check reports that it waits.
#[tokio::test]
async fn findings_come_before_an_engine_that_is_silent() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    let mut settings = resolve(Vec::new(), None, &|_| None).unwrap().settings;
    settings.docker = path("docker.sock");
    (settings.state_dir, settings.run_dir) = (path("state"), path("run"));
    let mut listener = Some(UnixListener::bind(&settings.docker).unwrap());
    let mut told = Vec::new();
    let tell = &mut |progress: Progress<'_>| match progress {
        Progress::Found(found) => told.push(found.to_vec()),
        Progress::Waiting => drop(listener.take()),
    };
    let examined = host::examine(&settings, &EngineLocks::default(), false, tell).await;
    assert!(!examined.engine_answered);
    let has = |part: &[Finding], subject| part.iter().any(|finding| finding.subject == subject);
    let [first, rest] = told.as_slice() else { panic!("{told:?}") };
    assert!(has(first, Subject::State) && !has(first, Subject::Engine), "{first:?}");
    assert!(has(rest, Subject::Engine) && !has(rest, Subject::State), "{rest:?}");
    assert_eq!(first.len() + rest.len(), examined.findings.0.len());
}

#[test]
fn a_finding_that_may_differ_for_root_is_marked() {
    let finding = Finding::fail(Subject::State, "cannot write", "");
    assert_eq!(format!("{finding}"), "FAIL  state         cannot write\n");
    assert_eq!(format!("{finding:#}"), "FAIL* state         cannot write\n");
}

#[tokio::test]
async fn check_selects_the_network_like_the_server() {
    let home = tempfile::tempdir().unwrap();
    let settings = CniSettings {
        conf_dir: home.path().join("conf"),
        bin_dirs: vec![home.path().to_owned()],
        cache_dir: home.path().join("cache"),
    };
    let defaults = resolve(Vec::new(), None, &|_| None).unwrap().settings;
    let settings = Settings { cni: settings, ..defaults };
    let absent = cni::examine(&settings, OPEN).await.0;
    assert_eq!(absent[0].severity, Severity::Fail);
    assert!(absent[0].advice.contains("--network docker"), "{absent:?}");
    fs::create_dir(&settings.cni.conf_dir).unwrap();
    fs::write(settings.cni.conf_dir.join("05-bad.conflist"), "{").unwrap();
    let list = r#"{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "plug"}]}"#;
    fs::write(settings.cni.conf_dir.join("10-net.conflist"), list).unwrap();
    let plugin = home.path().join("plug");
    let versions =
        "#!/bin/sh\necho '{\"cniVersion\":\"1.0.0\",\"supportedVersions\":[\"1.0.0\"]}'\n";
    fs::write(&plugin, versions).unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
    let findings = cni::examine(&settings, OPEN).await.0;
    let seen: Vec<(Severity, &str)> =
        findings.iter().map(|finding| (finding.severity, finding.seen.as_str())).collect();
    assert_eq!(seen[0], (Severity::Ok, "network net from 10-net.conflist, plugins: plug"));
    assert!(seen[1].0 == Severity::Warn && seen[1].1.starts_with("not used: 05-bad.conflist: "));
    assert_eq!(seen[2], (Severity::Warn, "no plugin of the network net maps host ports"));
}

#[test]
fn a_bridge_without_the_firewall_plugin_is_reported_where_bridged_traffic_is_filtered() {
    let settings =
        CniSettings { conf_dir: "/conf".into(), bin_dirs: Vec::new(), cache_dir: "/cache".into() };
    let told = |plugins: &str, filtered: bool| {
        let list = format!(r#"{{"cniVersion":"1.0.0","name":"n","plugins":[{plugins}]}}"#);
        let list = NetworkConfigList::from_list(&list).unwrap();
        let selected = Some(SelectedConfig { file: "n.conflist".to_owned(), list });
        let selection = Selection { selected, refused: Vec::new(), problem: None };
        let findings =
            cni::judge(&settings, selection, Packets { bridged_filtered: filtered, ..OPEN });
        findings.iter().any(|one| one.advice.contains("firewall"))
    };
    let portmap = r#"{"type":"portmap","capabilities":{"portMappings":true}}"#;
    let bridge = format!(r#"{{"type":"bridge"}},{portmap}"#);
    let both = format!(r#"{bridge},{{"type":"firewall"}}"#);
    assert!(told(&bridge, true) && !told(&bridge, false));
    assert!(!told(&both, true) && !told(portmap, true));
}

#[test]
fn missing_capabilities_are_named() {
    assert_eq!(capability::own(&[]).severity, Severity::Ok);
    let without = capability::own(&["CAP_SYS_ADMIN", "CAP_NET_ADMIN"]);
    assert_eq!(without.severity, Severity::Fail);
    assert!(without.seen.contains("CAP_SYS_ADMIN and CAP_NET_ADMIN"), "{without:?}");
    assert_eq!(capability::protection(-1000).severity, Severity::Ok);
    assert_eq!(capability::protection(0).severity, Severity::Warn);
}

#[test]
fn places_are_tried_and_left_clean() {
    let home = tempfile::tempdir().unwrap();
    let deep = home.path().join("a/b");
    assert_eq!(paths::directory(Subject::State, "--state-dir", home.path()).severity, Severity::Ok);
    assert!(paths::directory(Subject::State, "--state-dir", &deep).seen.contains("will create "));
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let blocked = paths::directory(Subject::State, "--state-dir", &file.join("below"));
    assert_eq!(blocked.severity, Severity::Fail, "{blocked:?}");
    assert!(blocked.seen.ends_with(": Not a directory"), "{blocked:?}");
    assert_eq!(paths::listen(&at(&file)).severity, Severity::Fail);
    assert!(paths::listen(&at(&deep)).seen.ends_with("is free"));
    let socket = home.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    assert!(
        paths::listen(&at(&socket)).seen.starts_with("a server, which may be dockbridge, listens")
    );
    // A child process of another test may have a copy of the socket, so closing our copy would not stop the
    // socket from accepting connections.
    shutdown(listener.as_raw_fd(), Shutdown::Both).unwrap();
    assert!(paths::listen(&at(&socket)).seen.ends_with("dockbridge will replace the socket"));
}

fn at(path: &Path) -> Listen {
    Listen::Path(path.to_owned())
}

#[test]
fn check_names_the_server_of_an_engine() {
    let held = |socket: Option<&Path>| {
        Ok(Some(Holder { pid: Some(7), socket: socket.map(Path::to_owned) }))
    };
    let home = tempfile::tempdir().unwrap();
    let (one, other) = (home.path().join("one"), home.path().join("other"));
    let _listener = UnixListener::bind(&one).unwrap();
    std::os::unix::fs::symlink(home.path(), home.path().join("link")).unwrap();
    assert_eq!(server::judge(&Ok(None), &at(&one), false).severity, Severity::Ok);
    for same in [&one, &home.path().join("link/one")] {
        let running = server::judge(&held(Some(&one)), &at(same), false);
        assert_eq!(running.severity, Severity::Ok, "{running:?}");
    }
    let systemds = Listen::Inherited(None);
    assert_eq!(server::judge(&held(Some(&one)), &systemds, false).severity, Severity::Ok);
    let usual = Path::new("/run/dockbridge/dockbridge.sock");
    let as_cri_dockerd = held(Some(Path::new("/var/run/cri-dockerd.sock")));
    assert_eq!(server::judge(&as_cri_dockerd, &at(usual), false).severity, Severity::Ok);
    assert_eq!(server::judge(&as_cri_dockerd, &at(&other), false).severity, Severity::Fail);
    let rival = server::judge(&held(Some(&one)), &at(&other), false);
    assert_eq!(rival.severity, Severity::Fail);
    assert!(rival.seen.contains(&format!("process 7 serving {}", one.display())), "{rival:?}");
    assert!(rival.advice.contains(&format!("--listen unix://{}", one.display())), "{rival:?}");
    assert_eq!(server::judge(&held(Some(&one)), &at(&other), true).severity, Severity::Warn);
    assert_eq!(server::judge(&held(None), &at(&other), true).severity, Severity::Fail);
    let locked = HostError::new("open", &one, std::io::ErrorKind::PermissionDenied);
    assert_eq!(server::judge(&Err(locked), &at(&one), false).severity, Severity::Warn);
}

/// The kernel forwards packets. The packet filter drops them unless a rule accepts them, and sees no bridged packets.
const OPEN: Packets = Packets { forwarded: true, bridged_filtered: false, dropped: true };

pub(super) fn info() -> EngineInfo {
    EngineInfo {
        version: "26.1.5".to_owned(),
        api: ApiVersion::new(45),
        cgroup_driver: CgroupDriver::Systemd,
        cgroup_version: 2,
        root_dir: PathBuf::from("/"),
        containerd_store: false,
        storage_driver: "overlay2".to_owned(),
        runtimes: BTreeMap::new(),
        default_runtime: "runc".to_owned(),
        security_options: Vec::new(),
        log_driver: "json-file".to_owned(),
        live_restore: true,
        kernel: "6.1.0".to_owned(),
        containerd_socket: None,
        nftables: false,
        hub_mirrors: Vec::new(),
        serves_nri: false,
        cdi_spec_dirs: Vec::new(),
        warnings: Vec::new(),
        daemon_id: String::new(),
        other_store: None,
    }
}
