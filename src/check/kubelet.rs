//! Whether kubelet's configuration fits the engine and this server.
//!
//! Reads the flags of the running kubelet, its configuration file, and the files that `--config-dir` adds.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

use super::{finding::Finding, subject::Subject};
use crate::{
    concurrency::blocking::blocking,
    host::{
        file,
        process::{self, Program},
        processes::{Processes, flag_values},
    },
    model::engine::{CgroupDriver, EngineInfo},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kubelet {
    pub(super) pid: Option<u32>,
    pub(super) version: Option<(u32, u32)>,
    /// kubelet's settings, or why one of kubelet's configuration files cannot be read.
    pub(super) config: Result<Config, String>,
}

/// The fields of `KubeletConfiguration` (kubelet.config.k8s.io/v1beta1) that dockbridge reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Config {
    /// `cgroupfs` or `systemd`.
    pub(super) cgroup_driver: Option<String>,
    pub(super) container_runtime_endpoint: Option<String>,
    #[serde(rename = "failCgroupV1")]
    pub(super) fail_cgroup_v1: Option<bool>,
    pub(super) max_pods: Option<u32>,
}

impl Config {
    fn with(self, over: Self) -> Self {
        Self {
            cgroup_driver: over.cgroup_driver.or(self.cgroup_driver),
            container_runtime_endpoint: over
                .container_runtime_endpoint
                .or(self.container_runtime_endpoint),
            fail_cgroup_v1: over.fail_cgroup_v1.or(self.fail_cgroup_v1),
            max_pods: over.max_pods.or(self.max_pods),
        }
    }

    /// The cgroup driver that kubelet uses if it does not ask the runtime. kubelet treats an empty value as not set.
    fn driver(&self) -> &str {
        self.cgroup_driver.as_deref().filter(|driver| !driver.is_empty()).unwrap_or("cgroupfs")
    }
}

/// Returns None if there is neither a running kubelet nor its configuration file.
pub(super) async fn find() -> Option<Kubelet> {
    let (pid, words) = blocking(running).await;
    if pid.is_none() && !Path::new(CONFIG).exists() {
        return None;
    }
    let files = [config_file(pid, &words), option(&words, "--config-dir")];
    let [path, directory] = files.map(|path| path.map(PathBuf::from));
    let read = move || read_files(path.as_deref(), directory.as_deref());
    let config = blocking(read).await;
    let config = config.map(|config| with_flags(config, &words));
    Some(Kubelet { pid, version: version().await, config })
}

/// The path of kubelet's configuration file. A running kubelet without `--config` reads none. The flags of a kubelet
/// that does not run are not known.
fn config_file(pid: Option<u32>, words: &[String]) -> Option<&str> {
    if pid.is_none() { Some(CONFIG) } else { option(words, "--config") }
}

/// Reads the file at `path`, if it exists, and then the overriding `.conf` files below `directory`, sorted by path.
fn read_files(path: Option<&Path>, directory: Option<&Path>) -> Result<Config, String> {
    let mut config = Config::default();
    let mut added = Vec::new();
    if let Some(directory) = directory {
        drop_ins(directory, &mut added).map_err(|e| format!("{}: {e}", directory.display()))?;
        added.sort();
    }
    for file in path.map(Path::to_owned).into_iter().chain(added) {
        let text = match file::read_text(&file, LONGEST_CONFIG) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && Some(&*file) == path => {
                continue;
            }
            text => text.map_err(|error| error.to_string()),
        };
        let read = text.and_then(|text| parse(&text));
        config = config.with(read.map_err(|error| format!("{}: {error}", file.display()))?);
    }
    Ok(config)
}

fn drop_ins(directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            drop_ins(&entry.path(), found)?;
        } else if entry.path().extension().is_some_and(|end| end == "conf") {
            found.push(entry.path());
        }
    }
    Ok(())
}

/// The pid and the command line of the running kubelet.
fn running() -> (Option<u32>, Vec<String>) {
    let table = Processes::new("/proc");
    let pid = table.find_services("kubelet").first().copied();
    let words = pid.map(|pid| table.command_line(pid)).unwrap_or_default();
    (pid.filter(|_| !words.is_empty()), words)
}

/// Keys that are not in [`Config`] may have any value.
fn parse(text: &str) -> Result<Config, String> {
    // The YAML error must not quote lines of the file, because a finding is one line.
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

/// A flag of kubelet overrides its configuration files.
fn with_flags(config: Config, words: &[String]) -> Config {
    let value = |name| option(words, name).map(str::to_owned);
    config.with(Config {
        cgroup_driver: value("--cgroup-driver"),
        container_runtime_endpoint: value("--container-runtime-endpoint"),
        max_pods: option(words, "--max-pods").and_then(|text| text.parse().ok()),
        // The value of this flag is never the next word: `--fail-cgroupv1 false` means true.
        fail_cgroup_v1: words.iter().rev().find_map(|word| {
            match word.strip_prefix(FAIL_CGROUP_1)? {
                "" => Some(true),
                rest => rest.strip_prefix('=').map(|value| !GO_FALSE.contains(&value)),
            }
        }),
    })
}

/// Returns the last value if the flag is repeated.
fn option<'a>(words: &'a [String], name: &str) -> Option<&'a str> {
    flag_values(words, name).pop()
}

/// Asks the kubelet program in `PATH` for its release. The running kubelet may have another release.
async fn version() -> Option<(u32, u32)> {
    let kubelet = Program::new(Path::new("kubelet"), &["--version"], TIMEOUT);
    release(&process::run(kubelet).await.ok()?.text())
}

/// The release in the output of `kubelet --version`: 1 and 36 for `Kubernetes v1.36.1`.
fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().strip_prefix("Kubernetes v")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

pub(super) fn judge(
    kubelet: Option<&Kubelet>,
    engine: Option<&EngineInfo>,
    socket: Option<&Path>,
) -> Vec<Finding> {
    let Some(kubelet) = kubelet else {
        let seen = format!("kubelet does not run, and {CONFIG} does not exist");
        return vec![Finding::ok(Subject::Kubelet, seen)];
    };
    let config = match &kubelet.config {
        Ok(config) => config,
        Err(error) => {
            let seen = format!("cannot read the configuration of kubelet: {error}");
            let advice = "correct the file, or run the check as root";
            return vec![Finding::warn(Subject::Kubelet, seen, advice)];
        }
    };
    let mut findings = Vec::new();
    if let Some(engine) = engine {
        findings.extend(driver(kubelet, config, engine));
        findings.extend(cgroup_version(kubelet, config, engine));
    }
    findings.extend(endpoint(kubelet, config, socket));
    if findings.is_empty() {
        findings.push(Finding::ok(Subject::Kubelet, fitting(kubelet, config)));
    }
    findings
}

fn driver(kubelet: &Kubelet, config: &Config, engine: &EngineInfo) -> Option<Finding> {
    let engines = match engine.cgroup_driver {
        CgroupDriver::Cgroupfs => "cgroupfs",
        CgroupDriver::Systemd => "systemd",
        CgroupDriver::None => return None,
    };
    let own = config.driver();
    let asks = kubelet.version.is_some_and(|version| version >= ASKS_FOR_DRIVER);
    if own == engines || asks {
        return None;
    }
    let seen = format!(
        "the cgroup driver of kubelet is {own}, and that of Docker is {engines}: with kubelet before 1.31, no \
         pod can start"
    );
    let advice =
        format!("set cgroupDriver: {engines} in kubelet's configuration, and restart kubelet");
    Some(Finding::warn(Subject::Kubelet, seen, advice))
}

/// If kubelet does not run, a file in its unknown `--config-dir` may allow cgroup v1.
fn cgroup_version(kubelet: &Kubelet, config: &Config, engine: &EngineInfo) -> Option<Finding> {
    let refuses = kubelet.version? >= REFUSES_CGROUP_1 && config.fail_cgroup_v1 != Some(false);
    let seen = "this release of kubelet refuses to start on cgroup v1, which this host has";
    let advice = "boot with cgroup v2, or set failCgroupV1: false in kubelet's configuration";
    let unknown = format!(
        "{seen}, unless a flag of kubelet or a file in its --config-dir allows cgroup v1 (not known, because \
         kubelet does not run)"
    );
    (refuses && engine.cgroup_version == 1).then(|| match kubelet.pid {
        Some(_) => Finding::fail(Subject::Kubelet, seen, advice),
        None => Finding::warn(Subject::Kubelet, unknown, advice),
    })
}

/// Without an endpoint in its settings, kubelet uses containerd's socket. Some versions of kubeadm leave the setting
/// empty and pass the endpoint as a flag, which dockbridge can read only while kubelet runs.
fn endpoint(kubelet: &Kubelet, config: &Config, socket: Option<&Path>) -> Option<Finding> {
    let stated = config.container_runtime_endpoint.as_deref().filter(|stated| !stated.is_empty());
    let endpoint = stated.or(kubelet.pid.map(|_| CONTAINERD))?;
    let path = Path::new(endpoint.strip_prefix("unix://").unwrap_or(endpoint));
    let socket = socket?;
    if file::is_same(path, socket) {
        return None;
    }
    let seen = format!("kubelet uses the runtime at {endpoint}, not this dockbridge");
    let advice = format!(
        "set containerRuntimeEndpoint: unix://{} in kubelet's configuration, or change kubelet's flag \
         --container-runtime-endpoint if it is set",
        socket.display()
    );
    Some(Finding::warn(Subject::Kubelet, seen, advice))
}

fn fitting(kubelet: &Kubelet, config: &Config) -> String {
    let release = kubelet
        .version
        .map_or("of unknown version".to_owned(), |(major, minor)| format!("{major}.{minor}"));
    let runs = kubelet.pid.map_or("does not run".to_owned(), |pid| format!("process {pid}"));
    let driver = config.driver();
    format!(
        "kubelet {release} ({runs}), cgroup driver {driver} in its own settings (kubelet 1.31 and later ask \
         the runtime instead)"
    )
}

/// From this release on, kubelet by default asks the runtime for the cgroup driver (`KubeletCgroupDriverFromCRI`).
const ASKS_FOR_DRIVER: (u32, u32) = (1, 31);
/// From this release of kubelet on, `failCgroupV1` is true by default.
const REFUSES_CGROUP_1: (u32, u32) = (1, 35);
const FAIL_CGROUP_1: &str = "--fail-cgroupv1";
/// The values that Go reads as false.
const GO_FALSE: [&str; 6] = ["0", "f", "F", "false", "FALSE", "False"];
const CONFIG: &str = "/var/lib/kubelet/config.yaml";
/// The size limit of a configuration file of kubelet in bytes, far above the size of a file with all settings.
const LONGEST_CONFIG: u64 = 1 << 20;
const CONTAINERD: &str = "unix:///run/containerd/containerd.sock";
const TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::{
        super::{finding::Severity, tests::info},
        *,
    };

    #[test]
    fn settings_are_read_from_the_file_and_from_flags() {
        let file = "kind: KubeletConfiguration\ncgroupDriver: systemd\nmaxPods: 50\n\
                    containerRuntimeEndpoint: unix:///a\nfailCgroupV1: false\n\
                    evictionHard:\n  imagefs.available: 15%\nclusterDNS: [10.96.0.10]\n";
        let config = parse(file).unwrap();
        assert_eq!(config.cgroup_driver.as_deref(), Some("systemd"));
        assert_eq!((config.max_pods, config.fail_cgroup_v1), (Some(50), Some(false)));
        let words = ["kubelet", "--max-pods", "9", "--container-runtime-endpoint=unix:///b"];
        let config = with_flags(config, &words.map(str::to_owned));
        assert_eq!(config.container_runtime_endpoint.as_deref(), Some("unix:///b"));
        assert_eq!((config.max_pods, config.cgroup_driver.as_deref()), (Some(9), Some("systemd")));
        for (words, fails) in [
            (&["kubelet"][..], Some(false)),
            (&["kubelet", "--fail-cgroupv1", "false"], Some(true)),
            (&["kubelet", "--fail-cgroupv1=F", "--fail-cgroupv1=true"], Some(true)),
            (&["kubelet", "--fail-cgroupv1", "--fail-cgroupv1=0"], Some(false)),
            (&["kubelet", "--fail-cgroupv1-other"], Some(false)),
        ] {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let config = with_flags(parse("failCgroupV1: false").unwrap(), &words);
            assert_eq!(config.fail_cgroup_v1, fails, "{words:?}");
        }
        for wrong in ["maxPods: [", "maxPods: many", "- a"] {
            let reason = parse(wrong).unwrap_err();
            assert!(reason.contains("line 1") && reason.lines().count() == 1, "{reason}");
        }
        assert_eq!(parse("").unwrap_or_default(), Config::default());
        assert_eq!(release("Kubernetes v1.36.1\n"), Some((1, 36)));
        assert_eq!(release("v1.36"), None);
    }

    #[test]
    fn what_does_not_fit_is_named_with_the_remedy() {
        let of = |pid, config: Config, version, cgroup_version| {
            let kubelet = Kubelet { pid, version, config: Ok(config) };
            let engine = EngineInfo { cgroup_version, ..info() };
            judge(Some(&kubelet), Some(&engine), Some(Path::new("/run/d.sock")))
        };
        let judged = |config, version, cgroup_version| of(Some(7), config, version, cgroup_version);
        let fitting = Config {
            cgroup_driver: Some("systemd".to_owned()),
            container_runtime_endpoint: Some("unix:///run/d.sock".to_owned()),
            ..Config::default()
        };
        let new = Some((1, 36));
        assert_eq!(judged(fitting.clone(), new, 2)[0].severity, Severity::Ok);
        let refusing = judged(fitting.clone(), new, 1);
        assert_eq!(refusing[0].severity, Severity::Fail);
        assert!(refusing[0].advice.contains("failCgroupV1"), "{refusing:?}");
        // Without a running kubelet, a file in an unknown `--config-dir` may allow cgroup v1.
        let stopped = of(None, fitting.clone(), new, 1);
        assert_eq!((stopped.len(), stopped[0].severity), (1, Severity::Warn), "{stopped:?}");
        assert!(stopped[0].seen.contains("--config-dir"), "{stopped:?}");
        assert_eq!(judged(fitting.clone(), Some((1, 34)), 1)[0].severity, Severity::Ok);
        let allowed = Config { fail_cgroup_v1: Some(false), ..fitting.clone() };
        assert_eq!(judged(allowed, new, 1)[0].severity, Severity::Ok);
        let other_driver = Config { cgroup_driver: None, ..fitting.clone() };
        assert_eq!(judged(other_driver.clone(), new, 2)[0].severity, Severity::Ok);
        let old = judged(other_driver, Some((1, 30)), 2);
        assert!(old[0].advice.contains("cgroupDriver: systemd"), "{old:?}");
        let elsewhere = judged(Config { container_runtime_endpoint: None, ..fitting }, new, 2);
        assert!(elsewhere[0].seen.contains("containerd.sock"), "{elsewhere:?}");
        assert!(elsewhere[0].advice.contains("unix:///run/d.sock"), "{elsewhere:?}");
    }

    /// kubelet treats an empty or null string setting like a missing one: Go decodes all three to the same value.
    #[test]
    fn an_empty_setting_is_no_setting() {
        let socket = Path::new("/run/d.sock");
        let seen = |pid, text: &str, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let config = Ok(with_flags(parse(text).unwrap(), &words));
            let kubelet = Kubelet { pid, version: Some((1, 30)), config };
            let engine = EngineInfo { cgroup_driver: CgroupDriver::Cgroupfs, ..info() };
            let found = judge(Some(&kubelet), Some(&engine), Some(socket));
            (found[0].severity, found[0].seen.clone())
        };
        for empty in ["''", "null"] {
            let file = format!("containerRuntimeEndpoint: {empty}\ncgroupDriver: {empty}\n");
            assert_eq!(
                seen(None, &file, &[]).0,
                Severity::Ok,
                "without a running kubelet, its flags are unknown"
            );
            let (severity, text) = seen(Some(7), &file, &[]);
            assert_eq!(severity, Severity::Warn);
            assert!(text.contains("containerd.sock"), "{text}");
            let flag = "--container-runtime-endpoint=unix:///run/d.sock";
            assert_eq!(seen(Some(7), &file, &[flag]).0, Severity::Ok);
        }
    }

    /// Like kubelet, dockbridge merges the file first, then the directory's `.conf` files in the order of their paths.
    #[test]
    fn drop_ins_win_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("d/20")).unwrap();
        let write = |name: &str, text: &str| fs::write(at(name), text).unwrap();
        write("config.yaml", "cgroupDriver: cgroupfs\nmaxPods: 1\nfailCgroupV1: true\n");
        write("d/10-first.conf", "cgroupDriver: systemd\nmaxPods: 2\n");
        write("d/20/nested.conf", "maxPods: 3\ncontainerRuntimeEndpoint: unix:///run/d.sock\n");
        write("d/90-ignored.yaml", "maxPods: 9\n");
        let config = read_files(Some(&at("config.yaml")), Some(&at("d"))).unwrap();
        let expected = Config {
            cgroup_driver: Some("systemd".to_owned()),
            container_runtime_endpoint: Some("unix:///run/d.sock".to_owned()),
            fail_cgroup_v1: Some(true),
            max_pods: Some(3),
        };
        assert_eq!(config, expected);
        assert_eq!(read_files(Some(&at("none")), None), Ok(Config::default()));
        write("d/30-wrong.conf", "maxPods: many\n");
        let reason = read_files(None, Some(&at("d"))).unwrap_err();
        assert!(reason.contains("30-wrong.conf"), "{reason}");
        assert!(read_files(None, Some(&at("missing"))).is_err());
    }

    #[test]
    fn a_running_kubelet_without_the_flag_reads_no_file() {
        let words = ["kubelet", "--config=/k.yaml"].map(str::to_owned);
        assert_eq!(config_file(Some(7), &words), Some("/k.yaml"));
        assert_eq!(config_file(Some(7), &words[..1]), None);
        assert_eq!(config_file(None, &[]), Some(CONFIG));
    }

    #[test]
    fn a_host_without_a_kubelet_is_no_fault() {
        assert_eq!(judge(None, None, None)[0].severity, Severity::Ok);
        let damaged = Kubelet { pid: None, version: None, config: Err("line 3".to_owned()) };
        let findings = judge(Some(&damaged), None, None);
        assert!(findings[0].severity == Severity::Warn && findings[0].seen.contains("line 3"));
    }
}
