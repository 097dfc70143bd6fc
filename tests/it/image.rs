//! The image verbs against the fake dockerd: what they ask of it, what they answer, and that the
//! store shows what they did.

use std::time::Duration;

use dockbridge::{
    engine::client::{Engine, Patience},
    error::Kind,
    image::{error::ImageError, images::Images, settings::ImageSettings},
    model::{
        id::ImageId,
        image::{Credentials, FilesystemUsage, PullRequest},
        reference::ImageReference,
    },
    pause::archive,
    store::{gate::Gate, handle::Store, settings::StoreSettings},
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::support::fake_dockerd::{
    fault::{Fault, Rule},
    server::{FakeDockerd, eventually},
};

const PATIENCE: Patience = Patience {
    ping: Duration::from_secs(2),
    short: Duration::from_secs(5),
    stop_margin: Duration::from_secs(5),
    stream: Duration::from_secs(5),
};
const ZEROS: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
const PULL: &str = "POST /images/create";
const LOAD: &str = "POST /images/load";

/// A fake engine with the verbs on top.
struct Bench {
    docker: FakeDockerd,
    store: Store,
    images: Images,
}

impl Bench {
    async fn new() -> Self {
        Self::with(ImageSettings::default()).await
    }

    async fn with(settings: ImageSettings) -> Self {
        let docker = FakeDockerd::start().await;
        Self::over(docker, settings).await
    }

    async fn over(docker: FakeDockerd, settings: ImageSettings) -> Self {
        let bench = Self::unsynced(docker, settings);
        bench.store.synced(Duration::from_secs(10)).await.unwrap();
        bench
    }

    fn unsynced(docker: FakeDockerd, settings: ImageSettings) -> Self {
        let engine = Engine::new(docker.socket().to_owned(), PATIENCE);
        let store =
            Store::start(engine.clone(), Vec::new(), StoreSettings::default(), Gate::open());
        let images =
            Images::new(engine, store.clone(), settings, &tokio_util::task::TaskTracker::new());
        Self { docker, store, images }
    }

    fn knows(&self, name: &str) -> bool {
        self.store.snapshot().image(name).is_some()
    }

    async fn see(&self, name: &str) {
        let seen = self.store.wait(Duration::from_secs(5), |all| all.image(name).map(|_| ()));
        seen.await.unwrap();
    }

    async fn measured(&self, bytes: u64) -> FilesystemUsage {
        for _ in 0..500 {
            let usage = self.images.filesystem().await.unwrap();
            if usage.image_bytes == bytes {
                return usage;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never measured {bytes}")
    }
}

fn request(reference: &str) -> PullRequest {
    let reference = ImageReference::parse(reference).unwrap().with_default_tag();
    PullRequest { reference, credentials: None }
}

fn with_password(reference: &str, password: &str) -> PullRequest {
    let (username, password) = ("me".to_owned(), password.to_owned());
    let credentials = Some(Credentials { username, password, ..Credentials::default() });
    PullRequest { credentials, ..request(reference) }
}

fn stalls_after(statuses: &[&str]) -> Fault {
    let message =
        |status: &&str| format!("{}\r\n", json!({ "status": status, "id": "aaaaaaaaaaaa" }));
    Fault::StreamThenStall(statuses.iter().map(message).map(String::into_bytes).collect())
}

fn id(text: &str) -> ImageId {
    ImageId::try_from(text).unwrap()
}

#[tokio::test]
async fn a_pull_answers_with_the_id_and_the_store_shows_it() {
    let bench = Bench::new().await;
    let offered = bench.docker.world(|world| world.offer_image("registry.test/app:1"));
    assert_eq!(bench.images.pull(request("registry.test/app:1")).await.unwrap(), id(&offered));
    assert!(bench.knows("registry.test/app:1") && bench.knows(&offered));
    let again = bench.images.pull(request("registry.test/app:1")).await.unwrap();
    assert_eq!((again, bench.docker.count(PULL)), (id(&offered), 2));
}

#[tokio::test]
async fn a_pull_moves_a_tag() {
    let bench = Bench::new().await;
    let old = bench.docker.world(|world| world.add_image("app:1"));
    bench.see("app:1").await;
    let new = bench.docker.world(|world| {
        world.images[0].tags.clear();
        world.offer_image("app:1")
    });
    assert_eq!(bench.images.pull(request("app:1")).await.unwrap(), id(&new));
    let shown = bench.store.snapshot().image("app:1").map(|image| image.id.clone());
    assert_eq!(shown, Some(id(&new)));
    assert_ne!(old, new);
}

#[tokio::test]
async fn equal_pulls_share_one_transfer_and_others_do_not() {
    let bench = Bench::new().await;
    bench.docker.world(|world| world.offer_image("app:1"));
    bench.docker.inject(Rule::new(PULL, Fault::Late(Duration::from_millis(300))));
    let images = &bench.images;
    let (one, same, other) = tokio::join!(
        images.pull(request("app:1")),
        images.pull(request("docker.io/library/app:1")),
        images.pull(with_password("app:1", "secret")),
    );
    assert_eq!(one.unwrap(), same.unwrap());
    assert!(other.is_ok());
    assert_eq!(bench.docker.count(PULL), 2, "one anonymous, one with credentials");
}

#[tokio::test]
async fn a_pull_goes_on_while_one_caller_is_left_and_ends_with_the_last() {
    let bench = Bench::new().await;
    bench.docker.inject(Rule::new(PULL, stalls_after(&["Downloading"])));
    let mut first = Box::pin(bench.images.pull(request("app:1")));
    let mut second = Box::pin(bench.images.pull(request("app:1")));
    let short = Duration::from_millis(300);
    assert!(timeout(short, async { tokio::join!(&mut first, &mut second) }).await.is_err());
    drop(first);
    assert!(timeout(short, &mut second).await.is_err());
    assert_eq!((bench.docker.count(PULL), bench.docker.abandoned()), (1, 0));
    drop(second);
    eventually(|| bench.docker.abandoned() == 1).await;
}

#[tokio::test]
async fn a_silent_download_is_given_up() {
    let pull_stall = Some(Duration::from_millis(300));
    let bench = Bench::with(ImageSettings { pull_stall, ..Default::default() }).await;
    for silence in [Fault::StalledHeaders, stalls_after(&[]), stalls_after(&["Downloading"])] {
        bench.docker.clear_faults();
        bench.docker.inject(Rule::new(PULL, silence.clone()));
        let error = bench.images.pull(request("app:1")).await.unwrap_err();
        assert!(matches!(error, ImageError::Stalled { .. }), "{silence:?}: {error}");
        assert_eq!(error.kind(), Kind::DeadlineExceeded);
    }
}

#[tokio::test]
async fn unpacking_may_be_silent() {
    let pull_stall = Some(Duration::from_millis(100));
    let bench = Bench::with(ImageSettings { pull_stall, ..Default::default() }).await;
    for last in ["Extracting", "Download complete"] {
        bench.docker.clear_faults();
        bench.docker.inject(Rule::new(PULL, stalls_after(&["Downloading", last])));
        let pull = timeout(Duration::from_millis(600), bench.images.pull(request("app:1")));
        assert!(pull.await.is_err(), "{last}: still patient");
    }
}

#[tokio::test]
async fn a_refused_pull_tells_why_in_kubelets_way() {
    let bench = Bench::new().await;
    let refusals = [
        (500, "received unexpected HTTP status: 503 Service Unavailable", "RegistryUnavailable: "),
        (404, "manifest for app:1 not found: manifest unknown", "manifest for app:1"),
        (500, "Head https://r.test/v2/app: unauthorized: access denied", "Head https://r.test"),
    ];
    for (status, text, beginning) in refusals {
        bench.docker.clear_faults();
        bench.docker.inject(Rule::new(PULL, Fault::Status(status, text.to_owned())));
        let error = bench.images.pull(with_password("app:1", "geheim")).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unknown, "{error}");
        assert!(error.to_string().starts_with(beginning), "{error}");
        assert!(!format!("{error} {error:?}").contains("geheim"));
    }
    bench.docker.stop().await;
    let error = bench.images.pull(request("app:1")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable);
}

#[tokio::test]
async fn a_removal_takes_every_form_of_name() {
    let bench = Bench::new().await;
    for form in ["tag", "full", "digest", "id"] {
        let image = bench.docker.world(|world| world.add_image("app:1"));
        bench.see(&image).await;
        let digest = format!("app@{image}");
        let name = match form {
            "tag" => "app:1",
            "full" => "docker.io/library/app:1",
            "digest" => &digest,
            _ => &image,
        };
        bench.images.remove(name).await.unwrap();
        assert!(!bench.knows(&image) && !bench.knows("app:1"), "{form}");
        assert!(bench.docker.world(|world| world.images.is_empty()), "{form}");
    }
}

#[tokio::test]
async fn a_removal_takes_every_name_of_the_image() {
    let bench = Bench::new().await;
    let image = bench.docker.world(|world| {
        let image = world.add_image("app:1");
        world.images[0].tags.extend(["app:2".to_owned(), "r.test/app:1".to_owned()]);
        image
    });
    bench.see(&image).await;
    bench.images.remove("r.test/app:1").await.unwrap();
    assert!(["app:1", "app:2", "r.test/app:1", &image].iter().all(|name| !bench.knows(name)));
    assert!(bench.docker.world(|world| world.images.is_empty()));
}

#[tokio::test]
async fn what_does_not_exist_is_removed_already() {
    let bench = Bench::new().await;
    let image = bench.docker.world(|world| world.add_image("app:1"));
    bench.see(&image).await;
    for name in ["app:2", ZEROS, &ZEROS[7..], "../x", "Upper", ""] {
        bench.images.remove(name).await.unwrap();
    }
    assert!(bench.knows(&image));
    assert_eq!(bench.docker.count("DELETE /images/*"), 0);
}

/// The engine takes `cafe` for the beginning of an id when no image is called so.
#[tokio::test]
async fn a_name_is_no_beginning_of_an_id() {
    let bench = Bench::new().await;
    let image = bench.docker.world(|world| world.add_image("app:1"));
    bench.see(&image).await;
    let inspect = json!({ "Id": image, "RepoTags": ["app:1"], "RepoDigests": [], "Size": 1 });
    bench.docker.inject(Rule::new("GET /images/cafe/json", Fault::Answer(200, inspect)));
    bench.images.remove("cafe").await.unwrap();
    assert!(bench.knows("app:1"));
    assert_eq!(bench.docker.count("DELETE /images/*"), 0);
}

#[tokio::test]
async fn parallel_removals_all_succeed() {
    let bench = Bench::new().await;
    let image = bench.docker.world(|world| {
        let image = world.add_image("app:1");
        world.images[0].tags.push("app:2".to_owned());
        image
    });
    bench.see(&image).await;
    bench.docker.inject(Rule::new("DELETE /images/*", Fault::Late(Duration::from_millis(50))));
    let removals = [&image, "app:1", "app:2", &image, "app:1"].map(|name| {
        let (images, name, store) = (bench.images.clone(), name.to_owned(), bench.store.clone());
        tokio::spawn(async move {
            images.remove(&name).await.unwrap();
            store.snapshot().image(&name).is_none()
        })
    });
    for removal in removals {
        assert!(removal.await.unwrap(), "gone when answered");
    }
}

#[tokio::test]
async fn a_dropped_removal_ends_all_the_same() {
    let bench = Bench::new().await;
    let image = bench.docker.world(|world| world.add_image("app:1"));
    bench.see(&image).await;
    bench.docker.inject(Rule::new("DELETE /images/*", Fault::Late(Duration::from_millis(300))));
    let removal = timeout(Duration::from_millis(150), bench.images.remove("app:1"));
    assert!(removal.await.is_err());
    eventually(|| !bench.knows(&image)).await;
}

#[tokio::test]
async fn a_used_image_stays() {
    let bench = Bench::new().await;
    let image = bench.docker.world(|world| {
        let image = world.add_image("app:1");
        world.add_container("somebody", json!({ "Image": "app:1" }));
        image
    });
    bench.see(&image).await;
    let error = bench.images.remove("app:1").await.unwrap_err();
    assert_eq!(error.kind(), Kind::FailedPrecondition, "{error}");
    assert!(bench.knows("app:1"), "its name is kept");
    bench.docker.world(|world| world.images[0].tags.push("r.test/app:1".to_owned()));
    bench.store.refresh_image(&image).await.unwrap();
    let error = bench.images.remove("r.test/app:1").await.unwrap_err();
    assert_eq!(error.kind(), Kind::FailedPrecondition, "{error}");
    assert!(bench.knows("app:1") && bench.knows("r.test/app:1"), "all its names are kept");
}

#[tokio::test]
async fn a_parent_of_other_images_loses_its_names() {
    let bench = Bench::new().await;
    let image = bench.docker.world(|world| world.add_image("base:1"));
    bench.see(&image).await;
    let text = "conflict: unable to delete 0 (cannot be forced) - image has dependent child images";
    bench.docker.inject(Rule::new("DELETE /images/sha256:*", Fault::Status(409, text.to_owned())));
    bench.images.remove(&image).await.unwrap();
    assert_eq!(bench.docker.count("DELETE /images/base:1"), 1);
    assert!(!bench.knows("base:1"));
}

#[tokio::test]
async fn the_built_in_pause_is_loaded_once_and_again_when_it_went() {
    let bench = Bench::new().await;
    let pause = bench.images.pause().await.unwrap();
    assert!(bench.knows(archive::reference()));
    for _ in 0..3 {
        assert_eq!(bench.images.pause().await.unwrap(), pause);
    }
    let record = bench.store.snapshot().image(pause.as_str()).cloned().unwrap();
    assert!(bench.images.is_pinned(&record));
    assert_eq!(bench.docker.count(LOAD), 1);
    bench.docker.forget_requests();
    bench.images.pause().await.unwrap();
    assert_eq!(bench.docker.count("GET /images/*"), 0, "the store's word is enough");

    bench.images.remove(archive::reference()).await.unwrap();
    let images = &bench.images;
    let pauses = tokio::join!(images.pause(), images.pause(), images.pause());
    let pauses = [pauses.0, pauses.1, pauses.2].map(Result::unwrap);
    assert!(pauses.iter().all(|one| *one == pauses[0] && *one != pause));
    assert_eq!(bench.docker.count(LOAD), 1, "all three share it");
}

#[tokio::test]
async fn a_pause_that_is_there_is_not_loaded() {
    let docker = FakeDockerd::start().await;
    let there = docker.world(|world| world.add_image(archive::reference()));
    let bench = Bench::unsynced(docker, ImageSettings::default());
    assert_eq!(bench.images.pause().await.unwrap(), id(&there));
    assert_eq!(bench.docker.count(LOAD), 0);
}

#[tokio::test]
async fn a_configured_pause_is_pulled_with_credentials() {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("config.json");
    std::fs::write(&config, r#"{"auths":{"r.test:5000":{"auth":"bWU6c2VjcmV0"}}}"#).unwrap();
    let name = "r.test:5000/pause:3.10".to_owned();
    let settings = ImageSettings {
        sandbox_image: Some(name.clone()),
        registry_config: Some(config),
        ..Default::default()
    };
    let bench = Bench::with(settings).await;
    let offered = bench.docker.world(|world| world.offer_image(&name));
    assert_eq!(bench.images.pause().await.unwrap(), id(&offered));
    let pulls = bench.docker.matching(PULL);
    assert_eq!(pulls.len(), 1);
    assert!(pulls[0].headers.contains_key("x-registry-auth"), "it proves who asks");
    assert_eq!(bench.docker.count(LOAD), 0);
    let record = bench.store.snapshot().image(&offered).cloned().unwrap();
    assert!(bench.images.is_pinned(&record));
}

#[tokio::test]
async fn a_pause_by_id_cannot_be_pulled() {
    let settings = ImageSettings { sandbox_image: Some(ZEROS.to_owned()), ..Default::default() };
    let bench = Bench::with(settings).await;
    let error = bench.images.pause().await.unwrap_err();
    assert!(matches!(error, ImageError::Unpullable { .. }), "{error}");
    assert_eq!(error.kind(), Kind::FailedPrecondition);
    let there = bench.docker.world(|world| world.add_image("app:1"));
    let settings = ImageSettings { sandbox_image: Some(there.clone()), ..Default::default() };
    let Bench { docker, .. } = bench;
    let bench = Bench::over(docker, settings).await;
    assert_eq!(bench.images.pause().await.unwrap(), id(&there));
}

#[tokio::test]
async fn a_pause_that_lost_its_name_is_still_pinned() {
    let bench = Bench::new().await;
    let pause = bench.images.pause().await.unwrap();
    let record = bench.store.snapshot().image(pause.as_str()).cloned().unwrap();
    bench.docker.world(|world| world.images[0].tags.clear());
    bench.store.refresh_image(pause.as_str()).await.unwrap();
    assert!(!bench.knows(archive::reference()));
    assert!(bench.images.is_pinned(&record));
    assert_eq!(bench.images.pause().await.unwrap(), pause);
    let other = bench.docker.world(|world| world.add_image("app:1"));
    bench.see(&other).await;
    let other = bench.store.snapshot().image(&other).cloned().unwrap();
    assert!(!bench.images.is_pinned(&other));
}

#[tokio::test]
async fn the_image_file_system_is_measured_in_the_background() {
    let docker = FakeDockerd::start().await;
    docker.world(|world| world.add_image("app:1"));
    let bench = Bench::over(docker, ImageSettings::default()).await;
    let usage = bench.measured(1_234_567).await;
    assert!(usage.measured_at.is_set() && usage.mountpoint.is_dir());
    assert!(bench.docker.directory().starts_with(&usage.mountpoint));
    for _ in 0..50 {
        bench.images.filesystem().await.unwrap();
    }
    assert_eq!(bench.docker.count("GET /system/df"), 1, "answers come from memory");
    bench.docker.stop().await;
    assert_eq!(bench.images.filesystem().await.unwrap(), usage, "the last value stays");
}

#[tokio::test]
async fn the_first_answer_waits_two_seconds_at_most() {
    let docker = FakeDockerd::start().await;
    docker.world(|world| world.add_image("app:1"));
    docker.inject(Rule::new("GET /system/df", Fault::StalledHeaders));
    let bench = Bench::over(docker, ImageSettings::default()).await;
    let began = Instant::now();
    let usage = bench.images.filesystem().await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(2500), "{:?}", began.elapsed());
    assert_eq!(usage.image_bytes, 1_234_567, "the images' own sizes");
}

#[tokio::test]
async fn without_an_engine_there_is_no_file_system() {
    let docker = FakeDockerd::start().await;
    docker.stop().await;
    let bench = Bench::unsynced(docker, ImageSettings::default());
    let error = bench.images.filesystem().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
}

#[tokio::test]
async fn a_failing_engine_fails_the_verbs_with_its_own_kind() {
    let bench = Bench::new().await;
    bench.docker.world(|world| world.add_image("app:1"));
    bench.see("app:1").await;
    let down = Fault::Answer(500, Value::from("down"));
    bench.docker.inject(Rule::new("DELETE /images/*", down.clone()));
    assert_eq!(bench.images.remove("app:1").await.unwrap_err().kind(), Kind::Unknown);
    assert!(bench.knows("app:1"));
    bench.docker.inject(Rule::new(LOAD, down));
    assert_eq!(bench.images.pause().await.unwrap_err().kind(), Kind::Unknown);
    bench.docker.clear_faults();
    bench.images.pause().await.unwrap();
}
