//! Tests of how many streams a peer may have.

use super::*;

#[tokio::test]
async fn at_most_a_thousand_streams_are_open() {
    let (mut connection, mut peer) = session();
    let mut streams = Vec::new();
    for number in 0..1000 {
        streams.push(accepted(&mut connection, &mut peer, 2 * number + 1).await);
    }
    peer.open(2001, 0).await;
    assert_eq!(peer.next().await, Some(Seen::Reset(2001, 3)));
    drop(streams.pop());
    assert_eq!(peer.next().await, Some(Seen::Reset(1999, 5)));
    accepted(&mut connection, &mut peer, 2003).await;
}

#[tokio::test]
async fn unaccepted_streams_are_bounded() {
    let (mut connection, mut peer) = session();
    for number in 0..1000 {
        peer.open(2 * number + 1, 0).await;
        peer.reset(2 * number + 1).await;
    }
    peer.open(2001, 0).await;
    assert_eq!(peer.next().await, Some(Seen::Reset(2001, 3)));
    let (mut receiver, mut sender) = connection.accept().await.unwrap().accept();
    assert_eq!(receiver.next().await, None);
    assert_eq!(sender.finish().await, Err(Gone));
}

/// Each stream that dockbridge refuses causes a frame, which waits while the peer does not read.
#[tokio::test]
async fn a_peer_that_takes_no_refusals_is_not_read() {
    let (mut connection, mut peer) = session();
    let refusing = tokio::spawn(async move { while connection.accept().await.is_some() {} });
    let mut opened = 0;
    while opened < 20_000 {
        let opening = timeout(Duration::from_millis(500), peer.open(2 * opened + 1, 0));
        if opening.await.is_err() {
            break;
        }
        opened += 1;
        // The other tasks run in between, so that each stream is offered and then refused.
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
    assert!(opened < 20_000, "{opened} refusals are in the queue");
    refusing.abort();
}

/// All connections share a pool for additional streams, beyond the streams that each connection can always have.
#[tokio::test]
async fn places_return_with_the_last_half_of_a_stream() {
    static POOL: Semaphore = Semaphore::const_new(1);
    let (ours, theirs) = duplex(64 * 1024);
    let (sender, offers) = mpsc::channel(20);
    let window = Window::default();
    tokio::spawn(run(ours, window, sender, StreamCount::new(&POOL)));
    let (mut connection, mut peer) = (Connection { offers }, Peer::new(theirs));
    let mut streams = Vec::new();
    for number in 0..17 {
        streams.push(accepted(&mut connection, &mut peer, 2 * number + 1).await);
    }
    peer.open(35, 0).await;
    assert_eq!(peer.next().await, Some(Seen::Reset(35, 3)));
    // After the peer has reset a stream, the stream counts until dockbridge has dropped its receiver and its sender.
    peer.reset(33).await;
    let (mut receiver, sender) = streams.pop().unwrap();
    assert_eq!(receiver.next().await, None);
    drop(receiver);
    assert_eq!(POOL.available_permits(), 0);
    peer.open(37, 0).await;
    assert_eq!(peer.next().await, Some(Seen::Reset(37, 3)));
    drop(sender);
    assert_eq!(POOL.available_permits(), 1);
    let (mut receiver, mut sender) = accepted(&mut connection, &mut peer, 39).await;
    assert_eq!(POOL.available_permits(), 0);
    peer.data(39, b"", true).await;
    assert_eq!(receiver.next().await, None);
    sender.finish().await.unwrap();
    drop((receiver, sender));
    assert_eq!(POOL.available_permits(), 1);
}
