//! At its start, dockbridge pins the user namespace of a pod again if the pin was lost.

use super::*;

#[tokio::test]
async fn a_lost_pin_is_restored_at_the_start_of_dockbridge() {
    let Some(node) = Node::with_oci_runtime().await else { return };
    let ids = json!({ "host": 200_000, "length": 65536 });
    let mut spec = spec("mapped", true);
    spec.namespaces.users =
        Some(serde_json::from_value(json!({ "uids": ids, "gids": ids })).unwrap());
    let id = node.start().await.run(spec).await.unwrap();
    let pin = node.root.path().join("run/userns").join(id.as_str());
    netns::unpin(&pin).unwrap();
    let sandboxes = node.start().await;
    sandboxes.recover_sandboxes(&TaskTracker::new()).await;
    assert!(netns::is_pinned(&pin));
    sandboxes.remove(id.as_str()).await.unwrap();
    assert!(!pin.exists());
}
