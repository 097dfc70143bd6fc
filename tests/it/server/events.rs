//! Tests GetContainerEvents while the engine does not answer inspects of one container, and after dockbridge missed the
//! engine's event about the end of a container.

use dockbridge::wire::cri::{self, ContainerEventType as E};
use tonic::Streaming;

use crate::support::{
    bridge::{Bridge, container, docker, pod},
    fake_dockerd::{
        fault::{Fault, Rule},
        server::eventually,
    },
};

type Listener = Streaming<cri::ContainerEventResponse>;

async fn listen(bridge: &Bridge) -> Listener {
    let request = cri::GetEventsRequest {};
    bridge.runtime.clone().get_container_events(request).await.unwrap().into_inner()
}

/// Reads the next `count` events, which must all belong to the container `id`.
async fn heard(listener: &mut Listener, id: &str, count: usize) -> Vec<E> {
    let mut steps = Vec::new();
    for _ in 0..count {
        let event = listener.message().await.unwrap().unwrap();
        assert_eq!(event.container_id, id);
        steps.push(event.container_event_type());
    }
    steps
}

/// dockbridge knows the container with the hanging inspect only from the engine's list, so events of its pod wait.
#[tokio::test]
async fn an_inspect_that_hangs_delays_the_events_of_its_own_pod_only() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let (slow, quick) = (pod("slow"), pod("quick"));
    let slow_id = bridge.run(&slow).await.unwrap();
    let quick_id = bridge.run(&quick).await.unwrap();
    let stuck = bridge.create(&slow_id, &container("stuck"), &slow).await.unwrap();
    let sibling = bridge.create(&slow_id, &container("sibling"), &slow).await.unwrap();
    let node = bridge.stop().await;
    let held = docker.hold(&format!("GET /containers/{stuck}/json"));
    let bridge =
        Bridge::start_on(node, &docker, dockbridge::model::network::NetworkMode::Docker).await;
    bridge.until_ready(true).await;
    let mut listener = listen(&bridge).await;
    bridge.start_container(&sibling).await.unwrap();
    // This container is created and removed while the events of the other pod wait.
    let short = bridge.create(&quick_id, &container("short"), &quick).await.unwrap();
    bridge.start_container(&short).await.unwrap();
    docker.world(|world| world.exit(&short, 0));
    bridge.remove_container(&short).await.unwrap();
    let all = [
        E::ContainerCreatedEvent,
        E::ContainerStartedEvent,
        E::ContainerStoppedEvent,
        E::ContainerDeletedEvent,
    ];
    assert_eq!(heard(&mut listener, &short, 4).await, all);
    held.cancel();
    assert_eq!(heard(&mut listener, &sibling, 1).await, [E::ContainerStartedEvent]);
    docker.clear_faults();
    bridge.clear(&docker).await;
}

/// A container ends and is removed while dockbridge's connection to the engine's event stream is broken.
#[tokio::test]
async fn an_end_that_the_event_stream_missed_is_told() {
    let docker = docker().await;
    let bridge = Bridge::start(&docker).await;
    let config = pod("p");
    let sandbox = bridge.run(&config).await.unwrap();
    let id = bridge.create(&sandbox, &container("c"), &config).await.unwrap();
    bridge.start_container(&id).await.unwrap();
    let mut listener = listen(&bridge).await;
    docker.inject(Rule::new("GET /events", Fault::Reset));
    docker.hang_up();
    bridge.until_ready(false).await;
    docker.world(|world| {
        world.exit(&id, 0);
        world.remove(&id);
    });
    docker.clear_faults();
    let steps = [E::ContainerStoppedEvent, E::ContainerDeletedEvent];
    assert_eq!(heard(&mut listener, &id, 2).await, steps);
    eventually(|| docker.count("GET /events") > 1).await;
    bridge.clear(&docker).await;
}
