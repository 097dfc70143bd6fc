//! The rules of image calls that need no engine: which callers share a pull, which names an image has,
//! where images are stored, and what errors say.

#![allow(clippy::string_slice, reason = "a test fails by panicking")]

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Notify, task::yield_now, time::timeout};

use super::{
    cancelling_single_flight::CancellingSingleFlight, error::ImageError, remove::has_name,
};
use crate::{
    concurrency::single_flight::Lost,
    engine::{
        error::{Call, EngineError, PullFault, Subject},
        storage::mountpoint,
    },
    error::Kind,
    model::{
        engine::{ApiVersion, CgroupDriver, EngineInfo},
        id::ImageId,
        record::ImageRecord,
        reference::ImageReference,
    },
    store::error::StoreError,
};

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";

/// Counts the starts and ends of a task that waits until it may finish.
#[derive(Clone, Default)]
struct Work {
    started: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
    finish: Arc<Notify>,
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Work {
    fn run(&self) -> impl Future<Output = usize> + Send + 'static {
        let work = self.clone();
        let guard = CountDrop(Arc::clone(&self.dropped));
        async move {
            let _guard = guard;
            let nth = work.started.fetch_add(1, Ordering::SeqCst);
            work.finish.notified().await;
            nth
        }
    }

    fn counts(&self) -> (usize, usize) {
        (self.started.load(Ordering::SeqCst), self.dropped.load(Ordering::SeqCst))
    }
}

#[tokio::test]
async fn equal_calls_share_the_work() {
    let (flight, work) = (CancellingSingleFlight::<&str, usize>::default(), Work::default());
    let finish = async {
        yield_now().await;
        yield_now().await;
        work.finish.notify_one();
    };
    let answers = tokio::join!(flight.run("a", work.run()), flight.run("a", work.run()), finish);
    assert_eq!((answers.0, answers.1), (Some(0), Some(0)));
    assert_eq!(work.started.load(Ordering::SeqCst), 1);
    work.finish.notify_one();
    assert_eq!(flight.run("a", work.run()).await, Some(1), "a later call starts anew");
}

#[tokio::test]
async fn work_ends_when_the_last_caller_has_left() {
    let (flight, work) = (CancellingSingleFlight::<&str, usize>::default(), Work::default());
    let short = Duration::from_millis(10);
    let mut first = Box::pin(flight.run("a", work.run()));
    assert!(timeout(short, &mut first).await.is_err());
    let second = timeout(short, flight.run("a", async { unreached() }));
    assert!(second.await.is_err());
    assert_eq!(work.counts(), (1, 0), "one caller is left");
    drop(first);
    while work.counts() != (1, 1) {
        yield_now().await;
    }
    work.finish.notify_one();
    assert_eq!(flight.run("a", work.run()).await, Some(1), "it was cancelled, not kept");
}

#[tokio::test]
async fn a_panic_is_no_answer_and_frees_the_key() {
    let flight = CancellingSingleFlight::<&str, usize>::default();
    assert_eq!(flight.run("a", async { panic!("on purpose") }).await, None);
    assert_eq!(flight.run("a", async { 7 }).await, Some(7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn joining_and_leaving_cross_without_harm() {
    let flight = CancellingSingleFlight::<u8, u32>::default();
    let callers = (0..400_u32).map(|nth| {
        let flight = flight.clone();
        tokio::spawn(async move {
            let work = async move {
                tokio::time::sleep(Duration::from_micros(u64::from(nth % 7) * 50)).await;
                nth
            };
            let time_limit = Duration::from_micros(u64::from(nth % 11) * 60);
            let impatient = nth % 3 == 0;
            if impatient {
                timeout(time_limit, flight.run(0, work)).await.unwrap_or(Some(0))
            } else {
                flight.run(0, work).await
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        let answer = timeout(Duration::from_secs(300), caller).await.unwrap().unwrap();
        assert!(answer.is_some());
    }
}

#[test]
fn an_image_has_its_names_and_its_id() {
    let image = record(&["busybox:1.36", "registry.test:5000/app:1"], &["busybox"]);
    let digest = format!("busybox@sha256:{OTHER}");
    for name in [
        HEX,
        &format!("sha256:{HEX}"),
        &HEX[..12],
        "busybox:1.36",
        "docker.io/library/busybox:1.36",
        "registry.test:5000/app:1",
        &digest,
        &format!("docker.io/library/{digest}"),
        &format!("busybox:whatever@sha256:{OTHER}"),
    ] {
        assert!(has_name(&image, name), "{name}");
    }
    for name in [
        "",
        OTHER,
        &HEX[..11],
        "0123",
        "busybox",
        "busybox:latest",
        "registry.test/app:1",
        "app:1",
        &format!("app@sha256:{OTHER}"),
        &format!("busybox@sha256:{HEX}"),
        "../containers/x",
    ] {
        assert!(!has_name(&image, name), "{name}");
    }
}

#[test]
fn a_tag_of_hexadecimal_digits_is_no_id() {
    let commit = format!("app:{}", &HEX[..40]);
    let whole = format!("app:{HEX}");
    let short = &HEX[..12];
    let image = record(&[&commit, &whole, &format!("{short}:latest")], &[]);
    let other = ImageRecord { id: ImageId::try_from(format!("sha256:{OTHER}")).unwrap(), ..image };
    for name in [&commit, &whole, short, &format!("docker.io/library/{commit}")] {
        assert!(has_name(&other, name), "{name}");
    }
    assert!(!has_name(&record(&[], &[]), &whole));
    assert!(!has_name(&record(&[], &[]), &commit));
}

#[tokio::test]
async fn images_are_where_the_store_in_use_keeps_them() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("docker");
    let gone = engine(root.join("gone/further"), false);
    assert_eq!(mountpoint(&gone).await, home.path(), "the nearest visible directory");
    std::fs::create_dir(&root).unwrap();
    assert_eq!(mountpoint(&engine(root.clone(), false)).await, root);
    assert_eq!(mountpoint(&engine(root.clone(), true)).await, root, "containerd's is elsewhere");
    let own = root.join("containerd/daemon");
    std::fs::create_dir_all(own.join("io.containerd.snapshotter.v1.made-up")).unwrap();
    assert_eq!(mountpoint(&engine(root.clone(), true)).await, own);
    assert_eq!(mountpoint(&engine(root.clone(), false)).await, root, "a graph driver is in use");
}

#[test]
fn failures_have_the_form_kubelet_parses() {
    let pull = |fault| {
        ImageError::from(EngineError::Pull {
            reference: "busybox:1".to_owned(),
            fault,
            message: "words".to_owned(),
        })
    };
    let unavailable = pull(PullFault::RegistryUnavailable);
    assert_eq!(unavailable.to_string(), "RegistryUnavailable: words");
    assert_eq!((unavailable.kind(), pull(PullFault::Other).kind()), (Kind::Unknown, Kind::Unknown));
    let in_use = EngineError::Conflict {
        call: Call { verb: "remove", subject: Subject::Image("x".to_owned()) },
        message: "words".to_owned(),
    };
    assert_eq!(ImageError::from(in_use).kind(), Kind::FailedPrecondition);
    let reference = ImageReference::parse("busybox:1").unwrap();
    let silent = Duration::from_secs(60);
    let stalled = ImageError::Stalled { reference, silent, layer: None };
    assert_eq!(stalled.kind(), Kind::DeadlineExceeded);
    assert_eq!(
        stalled.to_string(),
        "pull of docker.io/library/busybox:1 made no progress for 60s: the registry has named no \
         layer yet"
    );
    assert_eq!(ImageError::from(StoreError::Closed).kind(), Kind::Unavailable);
    assert_eq!(ImageError::NoFilesystem.kind(), Kind::Unavailable);
    assert_eq!(ImageError::from(Lost).kind(), Kind::Internal);
}

fn unreached() -> usize {
    panic!("flight work must not start")
}

fn record(tags: &[&str], repositories: &[&str]) -> ImageRecord {
    ImageRecord {
        id: ImageId::try_from(format!("sha256:{HEX}")).unwrap(),
        repo_tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        repo_digests: repositories.iter().map(|name| format!("{name}@sha256:{OTHER}")).collect(),
        size: 1,
        user: String::new(),
        labels: BTreeMap::new(),
        stop_signal: None,
        volumes: Default::default(),
        inspected: true,
    }
}

fn engine(root_dir: PathBuf, containerd_store: bool) -> EngineInfo {
    EngineInfo {
        version: "28.5.2".to_owned(),
        api: ApiVersion::NEWEST,
        cgroup_driver: CgroupDriver::Cgroupfs,
        cgroup_version: 2,
        root_dir,
        containerd_store,
        storage_driver: "made-up".to_owned(),
        runtimes: BTreeMap::new(),
        edits_runtime_path: None,
        edits_runtime_arguments: Vec::new(),
        default_runtime: "runc".to_owned(),
        security_options: Vec::new(),
        log_driver: "json-file".to_owned(),
        live_restore: false,
        kernel: String::new(),
        containerd_socket: None,
        nftables: false,
        hub_mirrors: Vec::new(),
        serves_nri: false,
        cdi_spec_dirs: Vec::new(),
        warnings: Vec::new(),
        daemon_id: String::new(),
    }
}
