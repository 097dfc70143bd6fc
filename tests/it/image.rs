//! Image calls with the fake dockerd: their requests, their answers, and their effects in the store.

use std::{sync::Arc, time::Duration};

use dockbridge::{
    checkpoint::directory::Checkpoints,
    config::{live::LiveSettings, settings::Settings},
    engine::client::{Engine, Timeouts},
    error::Kind,
    host::disk,
    image::{kubelet_images::KubeletImages, service::Images},
    model::{
        id::ImageId,
        image::{Credentials, FilesystemUsage, PullRequest},
        label,
        pinned_images::{CollectImages, LabelPattern, NamePattern, PinnedImages},
        reference::ImageReference,
    },
    pause::archive,
    store::{handle::Store, hooks::NoHooks, oom::OomDetector, settings::StoreSettings},
};
use serde_json::{Value, json};
use tokio::{
    sync::Barrier,
    time::{Instant, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::clock::forward;
use crate::support::{
    bridge::LONG,
    clock::{PAUSE, hurry},
    default_settings,
    fake_dockerd::{
        fault::{Fault, Rule},
        server::{FakeDockerd, eventually},
    },
};

const TIMEOUT: Timeouts = Timeouts { ping: LONG, short: LONG, stop_margin: LONG, stream: LONG };
const ZEROS: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
const PULL: &str = "POST /images/create";
const LOAD: &str = "POST /images/load";

/// A fake engine and dockbridge's image calls.
struct Bench {
    docker: FakeDockerd,
    store: Store,
    images: Images,
}

impl Bench {
    async fn new() -> Self {
        Self::with(default_settings()).await
    }

    async fn with(settings: Settings) -> Self {
        let docker = FakeDockerd::start().await;
        Self::over(docker, settings).await
    }

    async fn over(docker: FakeDockerd, settings: Settings) -> Self {
        let bench = Self::unsynced(docker, settings).await;
        bench.store.synced(LONG).await.unwrap();
        bench
    }

    async fn unsynced(docker: FakeDockerd, settings: Settings) -> Self {
        Self::start(docker, settings, StoreSettings::default()).await
    }

    async fn start(docker: FakeDockerd, settings: Settings, of_store: StoreSettings) -> Self {
        let engine = Engine::new(docker.socket().to_owned(), TIMEOUT);
        // The state directory is next to the engine's root, so that a second bench with the same fake engine
        // has the same state.
        let state = Checkpoints::open(&docker.directory().join("state")).unwrap();
        let pulled = KubeletImages::load(state).await;
        let oom = OomDetector::default();
        let store = Store::start(engine.clone(), Vec::new(), of_store, NoHooks, oom);
        let images = Images::new(
            engine,
            store.clone(),
            LiveSettings::new(settings),
            pulled,
            &TaskTracker::new(),
        );
        Self { docker, store, images }
    }

    fn pinned(&self, name: &str) -> bool {
        let record = self.store.snapshot().image(name).cloned().unwrap();
        self.images.is_pinned(&record)
    }

    fn knows(&self, name: &str) -> bool {
        self.store.snapshot().image(name).is_some()
    }

    async fn see(&self, name: &str) {
        let seen = self.store.wait(LONG, |all| all.image(name).map(|_| ()));
        seen.await.unwrap();
    }

    /// Adds an image with the names `app:1` and `app:2`, and returns its id when the store has the image.
    async fn with_two_names(&self) -> String {
        let image = self.docker.world(|world| {
            let image = world.add_image("app:1");
            world.images[0].tags.push("app:2".to_owned());
            image
        });
        self.see(&image).await;
        image
    }

    /// Adds an image and its child `child:1`, and returns the id of the parent when the store has both images.
    async fn with_child(&self) -> String {
        let parent = self.docker.world(|world| {
            let parent = world.add_image("parent:1");
            world.add_image("child:1");
            world.images[1].parent.clone_from(&parent);
            parent
        });
        self.see(&parent).await;
        self.see("child:1").await;
        parent
    }

    async fn measured(&self, bytes: u64) -> FilesystemUsage {
        let until = Instant::now() + LONG;
        loop {
            let usage = self.images.filesystem().await.unwrap();
            if usage.image_bytes == bytes {
                return usage;
            }
            assert!(Instant::now() < until, "never measured {bytes}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
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

fn downloading(current: u64) -> Vec<u8> {
    let detail = json!({ "current": current, "total": 100_000 });
    let message =
        json!({ "status": "Downloading", "id": "aaaaaaaaaaaa", "progressDetail": detail });
    format!("{message}\r\n").into_bytes()
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

/// If dockbridge kept pulled images whose inspect is too large, images of such failed pulls could fill the disk.
#[tokio::test]
async fn a_pulled_image_whose_inspect_is_too_large_does_not_stay() {
    let bench = Bench::new().await;
    bench.docker.world(|world| world.offer_image("registry.test/large:1"));
    let inspect = Fault::Huge(r#"{"Config":{"Env":[""#, 65 << 20, r#""]}}"#.to_owned());
    bench.docker.inject(Rule::new("GET /images/*/json", inspect));
    let error = bench.images.pull(request("registry.test/large:1")).await.unwrap_err();
    assert!(error.to_string().contains("larger than 67108864 bytes"), "{error}");
    assert_eq!(bench.docker.count("DELETE /images/*"), 1);
    assert!(bench.docker.world(|world| world.images.is_empty()));
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

/// containerd's image store sends the event of a pull before it stores the previous image of that name as an image
/// without a name. containerd's image store sends no event for the previous image.
#[tokio::test]
async fn an_image_that_lost_its_name_to_a_pull_is_shown_and_still_kubelets() {
    let settings = Settings { collect: CollectImages::Pulled, ..default_settings() };
    let bench = Bench::with(settings).await;
    let old = bench.docker.world(|world| world.offer_image("app:1"));
    bench.images.pull(request("app:1")).await.unwrap();
    let new = bench.docker.world(|world| {
        world.registry.clear();
        world.images[0].tags.clear();
        world.offer_image("app:1")
    });
    let (answer, gone) = (CancellationToken::new(), Fault::Status(404, "no such image".to_owned()));
    bench.docker.inject(Rule::new(PULL, Fault::HeldAnswer(answer.clone())));
    bench.docker.inject(Rule::new(&format!("GET /images/{old}/json"), gone));
    let pulling = bench.images.pull(request("app:1"));
    let kept = async {
        eventually(|| !bench.knows(&old)).await;
        bench.docker.clear_faults();
        answer.cancel();
    };
    assert_eq!(tokio::join!(pulling, kept).0.unwrap(), id(&new));
    assert!(bench.knows(&old) && !bench.pinned(&old));
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

/// Even the kubelet of a full node does not make more than about a hundred calls at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_equal_pulls_are_one() {
    let bench = Bench::new().await;
    let offered = bench.docker.world(|world| world.offer_image("app:1"));
    let held = bench.docker.hold(PULL);
    let all_wait = Arc::new(Barrier::new(101));
    let pulls = (0..100).map(|nth| {
        let (images, all_wait) = (bench.images.clone(), all_wait.clone());
        let name = if nth % 2 == 0 { "app:1" } else { "docker.io/library/app:1" };
        tokio::spawn(async move {
            let mut pull = Box::pin(images.pull(request(name)));
            timeout(Duration::ZERO, &mut pull).await.unwrap_err();
            all_wait.wait().await;
            pull.await.unwrap()
        })
    });
    let pulls: Vec<_> = pulls.collect();
    all_wait.wait().await;
    held.cancel();
    for pull in pulls {
        assert_eq!(pull.await.unwrap(), id(&offered));
    }
    assert_eq!(bench.docker.count(PULL), 1);
}

/// A pull may make no progress for longer while it may be extracting layers than while it downloads.
#[tokio::test]
async fn a_pull_without_progress_is_given_up() {
    let silences = [
        (Fault::StalledHeaders, "1s: Docker has reported no layer yet"),
        (stalls_after(&[]), "1s: Docker has reported no layer yet"),
        (stalls_after(&["Downloading"]), "1s: layer aaaaaaaaaaaa is at \"Downloading\""),
        (
            stalls_after(&["Downloading", "Extracting"]),
            "6s: layer aaaaaaaaaaaa is at \"Extracting\"",
        ),
        (
            stalls_after(&["Downloading", "Download complete"]),
            "6s: layer aaaaaaaaaaaa is at \"Download complete\"",
        ),
    ];
    for (silence, rest) in silences {
        let pull_progress_deadline = Some(Duration::from_secs(1));
        let bench = Bench::with(Settings { pull_progress_deadline, ..default_settings() }).await;
        bench.docker.inject(Rule::new(PULL, silence.clone()));
        let pull = bench.images.pull(request("app:1"));
        let error = hurry(PAUSE, Duration::from_millis(500), pull).await.unwrap_err();
        assert_eq!(error.kind(), Kind::DeadlineExceeded, "{silence:?}: {error}");
        let text = error.to_string();
        let start = "pull of docker.io/library/app:1 made no progress for ";
        assert_eq!(text, format!("{start}{rest}"));
        eventually(|| bench.docker.abandoned() == 1).await;
    }
}

/// Engines with containerd's store repeat the same progress message while a pull makes no progress.
#[tokio::test]
async fn a_pull_that_only_talks_is_given_up() {
    let pull_progress_deadline = Some(Duration::from_millis(300));
    let bench = Bench::with(Settings { pull_progress_deadline, ..default_settings() }).await;
    let chunk = downloading(5);
    bench.docker.inject(Rule::new(PULL, Fault::Stream(vec![chunk; 2000])));
    let error = bench.images.pull(request("app:1")).await.unwrap_err();
    assert!(error.to_string().ends_with("is at \"Downloading\", 5 of 100000 bytes"), "{error}");
}

#[tokio::test]
async fn a_slow_pull_that_moves_is_not_cut() {
    let deadline = Duration::from_secs(2);
    let settings = Settings { pull_progress_deadline: Some(deadline), ..default_settings() };
    let bench = Bench::with(settings).await;
    let image = bench.docker.world(|world| world.add_image("app:1"));
    bench.docker.inject(Rule::new(PULL, Fault::Stream((0..300).map(downloading).collect())));
    let began = Instant::now();
    let pull = bench.images.pull(request("app:1"));
    let pulled = hurry(PAUSE, Duration::from_millis(500), pull).await;
    assert_eq!(pulled.unwrap(), id(&image));
    assert!(began.elapsed() > 2 * deadline, "{:?}", began.elapsed());
}

#[tokio::test]
async fn without_a_deadline_silence_is_borne() {
    let bench = Bench::new().await;
    bench.docker.inject(Rule::new(PULL, stalls_after(&["Downloading"])));
    let pull = timeout(Duration::from_millis(600), bench.images.pull(request("app:1")));
    assert!(pull.await.is_err(), "still patient");
}

#[tokio::test]
async fn a_refused_pull_has_kubelets_prefix() {
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
async fn the_last_of_several_removals_counts() {
    let bench = Bench::new().await;
    let image = bench.docker.world(|world| world.add_image("app:1"));
    bench.see(&image).await;
    let no_effect = Fault::Answer(200, json!([]));
    bench.docker.inject(Rule::new("DELETE /images/*", no_effect.clone()).times(4));
    bench.images.remove("app:1").await.unwrap();
    assert!(!bench.knows(&image));
    let image = bench.docker.world(|world| world.add_image("app:1"));
    bench.see(&image).await;
    bench.docker.inject(Rule::new("DELETE /images/*", no_effect));
    let error = bench.images.remove("app:1").await.unwrap_err();
    assert!(error.to_string().contains("still exists after 5 attempts to remove it"), "{error}");
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

/// If no image has the name `cafe`, the engine reads `cafe` as the start of an id. dockbridge must not.
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
    let image = bench.with_two_names().await;
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

/// While another call removes an image's names one by one, a name may be gone before the engine's event has arrived.
#[tokio::test]
async fn a_name_the_engine_has_lost_is_not_shown_any_more() {
    let bench = Bench::new().await;
    let image = bench.with_two_names().await;
    bench.docker.world(|world| world.images[0].tags.retain(|tag| tag != "app:1"));
    bench.images.remove("app:1").await.unwrap();
    assert!(!bench.knows("app:1"));
    assert!(bench.knows("app:2"), "the image was not asked to go");
    bench.docker.world(|world| world.images.clear());
    bench.images.remove("app:2").await.unwrap();
    assert!(!bench.knows("app:2") && !bench.knows(&image));
}

#[tokio::test]
async fn a_dropped_removal_still_completes() {
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
    let text = "a refusal in words that nobody knows";
    bench.docker.inject(Rule::new("DELETE /images/sha256:*", Fault::Status(409, text.to_owned())));
    bench.images.remove(&image).await.unwrap();
    assert_eq!(bench.docker.count("DELETE /images/base:1"), 1);
    assert!(!bench.knows("base:1"));
}

/// After a removal, Docker keeps an image that is the parent of another image: an inspect shows it, but the list does
/// not. If dockbridge still listed the image, kubelet would count its size as freed and remove it again.
#[tokio::test]
async fn a_parent_of_other_images_is_not_listed_after_its_removal() {
    let bench = Bench::new().await;
    let parent = bench.with_child().await;
    bench.images.remove(&parent).await.unwrap();
    assert!(!bench.knows(&parent) && bench.knows("child:1"));
    // The events of the removal also cause an inspect, which shows the image without its names.
    bench.store.refresh_image(&parent).await.unwrap();
    assert!(!bench.knows(&parent));
    bench.images.remove(&parent).await.unwrap();
}

/// The image loses its names, as after `docker rmi`, or after `docker tag` gave the names to another image.
#[tokio::test]
async fn a_parent_of_other_images_that_lost_its_names_goes_with_the_next_list() {
    let store = StoreSettings { relist_interval: PAUSE, ..StoreSettings::default() };
    let bench = Bench::start(FakeDockerd::start().await, default_settings(), store).await;
    let parent = bench.with_child().await;
    bench.docker.world(|world| {
        world.images[0].tags.clear();
        world.images[0].digests.clear();
        world.image_event("untag", &parent);
    });
    eventually(|| !bench.knows(&parent)).await;
    assert!(bench.knows("child:1"));
    // Without its child, the image is a dangling image, which Docker lists.
    bench.docker.world(|world| world.images.retain(|image| image.parent.is_empty()));
    eventually(|| bench.knows(&parent)).await;
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
    assert!(pauses.iter().all(|one| *one == pause), "its id is the digest of what is in it");
    assert_eq!(bench.docker.count(LOAD), 1, "all three share it");
}

#[tokio::test]
async fn a_pause_that_is_there_is_not_loaded() {
    let docker = FakeDockerd::start().await;
    let Bench { docker, .. } = {
        let bench = Bench::over(docker, default_settings()).await;
        bench.images.pause().await.unwrap();
        bench
    };
    docker.forget_requests();
    let bench = Bench::unsynced(docker, default_settings()).await;
    assert!(archive::is_of(bench.images.pause().await.unwrap().as_str()));
    assert_eq!(bench.docker.count(LOAD), 0);
}

/// Users who may run pods can make the node pull an image with any name.
#[tokio::test]
async fn another_image_under_the_name_of_the_built_in_pause_is_not_used() {
    let docker = FakeDockerd::start().await;
    docker.world(|world| world.add_image(archive::reference()));
    let bench = Bench::unsynced(docker, default_settings()).await;
    let own = bench.images.pause().await.unwrap();
    assert!(archive::is_of(own.as_str()));
    assert_eq!(bench.docker.count(LOAD), 1);
    // Another image gets the name of the built-in pause image. The built-in image stays in the engine without a name.
    let pulled = bench.docker.world(|world| {
        for image in &mut world.images {
            image.tags.clear();
        }
        world.add_image(archive::reference())
    });
    bench.see(&pulled).await;
    bench.store.refresh_image(own.as_str()).await.unwrap();
    assert_eq!(bench.images.pause().await.unwrap(), own);
    assert_eq!(bench.docker.count(LOAD), 1);
}

#[tokio::test]
async fn a_configured_pause_is_pulled_with_credentials() {
    let home = tempfile::tempdir().unwrap();
    let config = home.path().join("config.json");
    std::fs::write(&config, r#"{"auths":{"r.test:5000":{"auth":"bWU6c2VjcmV0"}}}"#).unwrap();
    let name = "r.test:5000/pause:3.10".to_owned();
    let settings = Settings {
        sandbox_image: Some(name.clone()),
        registry_config: Some(config),
        ..default_settings()
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
    let settings = Settings { sandbox_image: Some(ZEROS.to_owned()), ..default_settings() };
    let bench = Bench::with(settings).await;
    let error = bench.images.pause().await.unwrap_err();
    assert!(error.to_string().contains("is missing and cannot be pulled"), "{error}");
    assert_eq!(error.kind(), Kind::FailedPrecondition);
    let there = bench.docker.world(|world| world.add_image("app:1"));
    let settings = Settings { sandbox_image: Some(there.clone()), ..default_settings() };
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
async fn images_are_pinned_by_name_and_by_label() {
    let names = ["r.test/keep/*", "busybox"].map(|text| NamePattern::parse(text).unwrap()).to_vec();
    let labels = vec![LabelPattern::parse("keep=yes").unwrap()];
    let pins = PinnedImages { names, labels };
    let bench = Bench::with(Settings { pins, ..default_settings() }).await;
    let pinned = ["r.test/keep/app:1", "busybox:1", "labelled:1"];
    let others = ["r.test/app:1", "other:1"];
    bench.docker.world(|world| {
        for name in pinned.iter().chain(&others) {
            world.add_image(name);
        }
        let labelled = world.images.iter_mut().find(|one| one.tags == ["labelled:1"]).unwrap();
        labelled.config["Labels"] = json!({ "keep": "yes" });
    });
    for name in pinned.iter().chain(&others) {
        bench.see(name).await;
    }
    bench.store.refresh_image("labelled:1").await.unwrap();
    assert!(pinned.iter().all(|name| bench.pinned(name)));
    assert!(!others.iter().any(|name| bench.pinned(name)));
}

/// An image that a container outside of pods uses is pinned. Otherwise kubelet, which does not know the container,
/// would try repeatedly to remove the image.
#[tokio::test]
async fn an_image_is_pinned_while_a_container_kubelet_does_not_know_holds_it() {
    let docker = FakeDockerd::start().await;
    let (early, pod) = docker.world(|world| {
        world.add_image("app:1");
        world.add_image("late:1");
        world.add_image("pause:old");
        world.add_image("pod:1");
        let pod = |image: &str, kind: &str, sandbox: &str| {
            let labels = json!({ label::TYPE: kind, label::SANDBOX_ID: sandbox });
            let host = json!({ "NetworkMode": format!("container:{sandbox}") });
            json!({ "Image": image, "Labels": labels, "HostConfig": host })
        };
        let pause = pod("pause:old", label::TYPE_SANDBOX, "");
        let pause = world.add_container("k8s_POD_a_b_c_0", pause);
        let work = pod("pod:1", label::TYPE_CONTAINER, &pause);
        let pod = world.add_container("k8s_x_a_b_c_0", work);
        (world.add_container("early", json!({ "Image": "app:1" })), pod)
    });
    let bench = Bench::over(docker, default_settings()).await;
    assert!(bench.pinned("app:1") && bench.pinned("pause:old"));
    assert!(!bench.pinned("pod:1") && !bench.pinned("late:1"), "kubelet knows the pod's");
    let late = bench.docker.world(|world| world.add_container("late", json!({"Image": "late:1"})));
    eventually(|| bench.pinned("late:1")).await;
    bench.docker.world(|world| world.start(&late));
    bench.docker.world(|world| [early, late, pod].iter().for_each(|id| world.remove(id)));
    eventually(|| !bench.pinned("late:1") && !bench.pinned("app:1")).await;
    assert!(bench.pinned("pause:old"));
}

#[tokio::test]
async fn kubelet_may_have_only_what_it_pulled() {
    let settings = Settings { collect: CollectImages::Pulled, ..default_settings() };
    let docker = FakeDockerd::start().await;
    docker.world(|world| {
        world.add_image("built:1");
        let both = world.add_image("both:1");
        let offered = world.images.iter().find(|one| one.id == both).cloned().unwrap();
        world.registry.push(offered);
        world.offer_image("pulled:1");
    });
    let bench = Bench::over(docker, settings.clone()).await;
    for name in ["both:1", "pulled:1"] {
        bench.images.pull(request(name)).await.unwrap();
    }
    assert!(bench.pinned("built:1") && bench.pinned("both:1"), "they were there before");
    assert!(!bench.pinned("pulled:1"));

    let tagged = bench.docker.world(|world| {
        let image = world.images.iter_mut().find(|one| one.tags == ["pulled:1"]).unwrap();
        image.tags.push("mine:1".to_owned());
        image.id.clone()
    });
    bench.store.refresh_image(&tagged).await.unwrap();
    assert!(bench.pinned("pulled:1"), "somebody gave it a name");
    bench.docker.world(|world| {
        let image = world.images.iter_mut().find(|one| one.id == tagged).unwrap();
        image.tags.retain(|tag| tag != "mine:1");
    });

    let bench = Bench::over(bench.docker, settings.clone()).await;
    assert!(bench.pinned("built:1") && !bench.pinned("pulled:1"), "it is remembered");
    bench.images.remove("pulled:1").await.unwrap();
    let file = bench.docker.directory().join("state/pulled-images.json");
    eventually(|| !file.exists()).await;

    let bench = Bench::over(bench.docker, default_settings()).await;
    assert!(!bench.pinned("built:1"), "without the setting nothing of it counts");
}

#[tokio::test]
async fn the_image_file_system_is_measured_in_the_background() {
    let docker = FakeDockerd::start().await;
    docker.world(|world| {
        world.add_image("app:1");
        std::fs::create_dir_all(&world.root).unwrap();
    });
    let bench = Bench::over(docker, default_settings()).await;
    let usage = bench.measured(1_234_567).await;
    assert!(usage.measured_at.is_set() && usage.mountpoint.is_dir());
    assert_eq!(usage.mountpoint, bench.docker.world(|world| world.root.clone()));
    let disk = disk::space(&usage.mountpoint).unwrap();
    assert_eq!(usage.inodes.is_some(), disk.inodes > 0);
    assert!(usage.inodes <= Some(disk.inodes), "{usage:?}, {disk:?}");
    for _ in 0..50 {
        bench.images.filesystem().await.unwrap();
    }
    assert_eq!(bench.docker.count("GET /system/df"), 1, "answers come from memory");
    bench.docker.stop().await;
    // kubelet's eviction manager reads the usage every ten seconds, and ignores a usage whose timestamp has
    // not advanced.
    forward(Duration::from_secs(10)).await;
    let began = Instant::now();
    loop {
        let now = bench.images.filesystem().await.unwrap();
        assert_eq!(now.image_bytes, usage.image_bytes, "the last value stays");
        if now.measured_at > usage.measured_at {
            break;
        }
        assert!(began.elapsed() < LONG, "the time stands still");
        tokio::time::sleep(PAUSE).await;
    }
}

#[tokio::test]
async fn the_first_answer_waits_two_seconds_at_most() {
    let docker = FakeDockerd::start().await;
    // This engine reports a data root that does not exist on the host.
    let root = docker.world(|world| {
        world.add_image("app:1");
        world.root.clone()
    });
    docker.inject(Rule::new("GET /system/df", Fault::StalledHeaders));
    let bench = Bench::over(docker, default_settings()).await;
    let began = Instant::now();
    let usage = hurry(PAUSE, Duration::from_millis(100), bench.images.filesystem()).await.unwrap();
    // On a busy machine, the answer may come later than the time limit of two seconds.
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(usage.image_bytes, 1_234_567, "the images' own sizes");
    assert_eq!(Some(usage.mountpoint.as_path()), root.parent(), "it can be looked at, already");
}

#[tokio::test]
async fn without_an_engine_there_is_no_file_system() {
    let docker = FakeDockerd::start().await;
    docker.stop().await;
    let bench = Bench::unsynced(docker, default_settings()).await;
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
