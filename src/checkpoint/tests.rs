//! Tests with intact and damaged state directories.

use std::{fs, path::PathBuf};

use futures_util::future::maybe_done;
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::{
    directory::Checkpoints,
    envelope::{self, EMPTY},
    record::{Loaded, PodCidrs, SandboxCheckpoint},
};
use crate::{
    host::file::Durability,
    model::{attachment::Attachment, id::SandboxId, time::Nanos},
};

struct State {
    root: TempDir,
    checkpoints: Checkpoints,
}

impl State {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let checkpoints = Checkpoints::open(root.path()).unwrap();
        Self { root, checkpoints }
    }

    fn path(&self, number: u64) -> PathBuf {
        self.root.path().join("sandboxes").join(format!("{}.json", id(number)))
    }

    async fn saved(&self, number: u64) -> Vec<u8> {
        self.checkpoints.save(&checkpoint(number), Durability::Written).await.unwrap();
        fs::read(self.path(number)).unwrap()
    }

    /// Loads the directory as a new process does.
    async fn load(&self) -> Loaded {
        Checkpoints::open(self.root.path()).unwrap().load().await
    }

    fn quarantine(&self) -> Vec<String> {
        let entries = fs::read_dir(self.root.path().join("quarantine"));
        let names = entries.into_iter().flatten().flatten();
        let mut names: Vec<String> =
            names.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn id(number: u64) -> SandboxId {
    SandboxId::try_from(format!("{number:064x}")).unwrap()
}

fn checkpoint(number: u64) -> SandboxCheckpoint {
    let metadata = json!({ "name": "pod", "namespace": "ns", "uid": "uid", "attempt": 3 });
    let spec = json!({ "metadata": metadata, "labels": { "a": "\u{0}\u{1F980}\"" } });
    let document = json!({ "version": 1, "spec": spec, "network": "cni" });
    SandboxCheckpoint {
        id: id(number),
        name: "k8s_POD_pod_ns_uid_3".to_owned(),
        document: serde_json::from_value(document).unwrap(),
        created_at: Nanos(1_700_000_000_000_000_001),
        attachment: Some(Attachment::Released),
    }
}

#[tokio::test]
async fn what_was_saved_is_loaded() {
    let state = State::new();
    for number in [2, 1] {
        state.checkpoints.save(&checkpoint(number), Durability::Synced).await.unwrap();
    }
    let loaded = state.load().await;
    assert_eq!(loaded.sandboxes, [checkpoint(1), checkpoint(2)]);
    assert!(loaded.quarantined.is_empty());
    state.checkpoints.remove(&id(1)).await.unwrap();
    state.checkpoints.remove(&id(1)).await.unwrap();
    assert_eq!(state.load().await.sandboxes, [checkpoint(2)]);
}

/// kubernetes#43021: because of an empty checkpoint file after a reboot, a pod could never be stopped.
#[tokio::test]
async fn damaged_files_are_quarantined_and_reported_once() {
    let state = State::new();
    let good = state.saved(1).await;
    let text = String::from_utf8(good.clone()).unwrap();
    let flipped = text.replace("pod_ns", "pod_nS").into_bytes();
    let newer = text.replace("\"version\":1,\"checksum\"", "\"version\":2,\"checksum\"");
    let damages: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), "empty"),
        (good[..good.len() / 2].to_vec(), "envelope of the file"),
        (vec![0; good.len()], "envelope of the file"),
        (flipped, "checksum"),
        (newer.into_bytes(), "version 2"),
        (b"{\"version\":0}".to_vec(), "version 0"),
        (b"[]".to_vec(), "envelope of the file"),
        (envelope::seal(&json!({ "id": "x" })).unwrap(), "cannot be parsed"),
        (good.clone(), "has the state of another sandbox"),
        (b"\xff\xfe".to_vec(), "envelope of the file"),
    ];
    for (number, (bytes, _)) in (2_u64..).zip(&damages) {
        fs::write(state.path(number), bytes).unwrap();
    }
    let loaded = state.load().await;
    assert_eq!(loaded.sandboxes, [checkpoint(1)], "the sound one is not touched");
    assert_eq!(loaded.quarantined.len(), damages.len());
    for (number, (bytes, word)) in (2_u64..).zip(&damages) {
        let name = format!("{}.json", id(number));
        let set_aside = loaded.quarantined.iter().find(|q| q.path.ends_with(&name)).unwrap();
        assert!(set_aside.reason.contains(word), "{number}: {}", set_aside.reason);
        assert_eq!(fs::read(&set_aside.path).unwrap(), *bytes, "kept as it was");
    }
    assert!(state.load().await.quarantined.is_empty());
}

#[tokio::test]
async fn a_second_damaged_file_of_the_same_name_is_kept_too() {
    let state = State::new();
    for text in ["one", "two", "three"] {
        fs::write(state.path(7), text).unwrap();
        state.load().await;
    }
    let name = format!("{}.json", id(7));
    assert_eq!(state.quarantine(), [name.clone(), format!("{name}.1"), format!("{name}.2")]);
}

#[tokio::test]
async fn files_that_are_not_ours_do_no_harm() {
    let state = State::new();
    state.saved(1).await;
    let sandboxes = state.root.path().join("sandboxes");
    fs::create_dir(state.path(2)).unwrap();
    fs::write(sandboxes.join("../sandboxes/notes.txt"), "mine").unwrap();
    fs::write(sandboxes.join("short.json"), "{}").unwrap();
    fs::create_dir(sandboxes.join(id(3).as_str())).unwrap();
    nix::unistd::mkfifo(&state.path(4), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("/dev/zero", state.path(5)).unwrap();
    let loaded = state.load().await;
    assert_eq!(loaded.sandboxes, [checkpoint(1)]);
    assert_eq!(loaded.quarantined.len(), 4, "{:?}", loaded.quarantined);
    assert!(sandboxes.join("notes.txt").exists(), "somebody else's file");
    assert!(sandboxes.join(id(3).as_str()).exists(), "somebody else's directory");
}

#[tokio::test]
async fn our_drafts_are_removed_and_no_others() {
    let state = State::new();
    let sandboxes = state.root.path().join("sandboxes");
    let drafts = [
        sandboxes.join(format!(".{}.json.99-1.tmp", id(1))),
        state.root.path().join(".pod-cidrs.json.99-2.tmp"),
        state.root.path().join(".pulled-images.json.99-3.tmp"),
    ];
    let foreign = state.root.path().join(".other.tmp");
    for draft in drafts.iter().chain([&foreign]) {
        fs::write(draft, "half").unwrap();
    }
    state.load().await;
    assert!(drafts.iter().all(|draft| !draft.exists()));
    assert!(foreign.exists());
}

#[tokio::test]
async fn a_directory_that_vanished_is_reported_and_made_again() {
    let state = State::new();
    fs::remove_dir_all(state.root.path()).unwrap();
    let loaded = state.checkpoints.load().await;
    assert_eq!(loaded.quarantined.len(), 1);
    assert!(state.checkpoints.stored().await.is_empty());
    state.checkpoints.remove(&id(1)).await.unwrap();
    state.checkpoints.save(&checkpoint(1), Durability::Synced).await.unwrap();
    assert_eq!(state.checkpoints.stored().await, [id(1)].into());
    state.checkpoints.remove(&id(1)).await.unwrap();
}

#[tokio::test]
async fn pod_cidrs_are_stored_or_quarantined() {
    let state = State::new();
    assert_eq!(state.checkpoints.load_file::<PodCidrs>().await, PodCidrs::default());
    let cidrs = PodCidrs { pod_cidrs: ["10.1.0.0/24", "fd00::/64"].map(str::to_owned).into() };
    state.checkpoints.save_file(&cidrs).await.unwrap();
    assert_eq!(state.checkpoints.load_file::<PodCidrs>().await, cidrs);
    fs::write(state.root.path().join("pod-cidrs.json"), [0; 64]).unwrap();
    assert_eq!(state.checkpoints.load_file::<PodCidrs>().await, PodCidrs::default());
    assert_eq!(state.quarantine(), ["pod-cidrs.json"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_saves_the_last_one_requested_stays() {
    let state = State::new();
    let mut saves = Vec::new();
    for count in 0..50 {
        let checkpoints = state.checkpoints.clone();
        let saved = SandboxCheckpoint { created_at: Nanos(count + 1), ..checkpoint(1) };
        let save = async move { checkpoints.save(&saved, Durability::Written).await };
        let mut save = Box::pin(maybe_done(save));
        // The first poll of `save` numbers the write and starts a blocking thread, which may finish at once.
        let _ = futures_util::poll!(save.as_mut());
        saves.push(save);
    }
    for mut save in saves.into_iter().rev() {
        save.as_mut().await;
        save.as_mut().take_output().unwrap().unwrap();
    }
    assert_eq!(state.load().await.sandboxes[0].created_at, Nanos(50));
}

proptest! {
    #[test]
    fn no_changed_byte_goes_unnoticed(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let bytes = envelope::seal(&checkpoint(1)).unwrap();
        let mut damaged = bytes.clone();
        let at = at.index(bytes.len() - 1);
        damaged[at] = byte;
        if let Ok(read) = envelope::open::<SandboxCheckpoint>(&damaged) {
            prop_assert_eq!(read, checkpoint(1), "byte {} was changed", at);
        }
    }

    #[test]
    fn no_cut_goes_unnoticed(length in any::<prop::sample::Index>()) {
        let bytes = envelope::seal(&checkpoint(1)).unwrap();
        // A cut that removes only the file's last byte, a line end, is not tested.
        let length = length.index(bytes.len() - 1);
        prop_assert!(envelope::open::<SandboxCheckpoint>(&bytes[..length]).is_err());
    }

    #[test]
    fn no_garbage_breaks_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(envelope::open::<SandboxCheckpoint>(&bytes).is_err());
    }
}

#[test]
fn a_file_written_today_reads_for_ever() {
    // The file also has the field `complete`, which dockbridge no longer writes.
    let text = include_str!("../../tests/fixtures/checkpoint/sandbox-v1.json");
    let read: SandboxCheckpoint = envelope::open(text.as_bytes()).unwrap();
    assert_eq!(read, checkpoint(1));
    let bare =
        json!({ "id": id(1), "name": "n", "document": checkpoint(1).document, "created_at": 5 });
    let old: SandboxCheckpoint = envelope::open(&envelope::seal(&bare).unwrap()).unwrap();
    assert_eq!(old.attachment, None);
    assert_eq!(envelope::open::<SandboxCheckpoint>(b""), Err(EMPTY.to_owned()));
}
