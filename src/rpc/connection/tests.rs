//! Connections over a pair of sockets: what leaves together, what waits, and that nothing is lost.

#![allow(clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::timeout,
};

use super::Connection;

/// Ours and the caller's end.
fn pair() -> (Connection, UnixStream) {
    let (ours, callers) = UnixStream::pair().unwrap();
    (Connection::over(ours).unwrap(), callers)
}

/// One that writes and then only reads, as HTTP/2 does; it gives back what it read.
async fn reads_on(mut ours: Connection) -> Vec<u8> {
    let mut read = Vec::new();
    ours.read_to_end(&mut read).await.unwrap();
    read
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_turn_writes_leaves_in_one_piece_and_by_itself() {
    let (mut ours, mut callers) = pair();
    let serving = tokio::spawn(async move {
        for piece in ["head", "message", "trailers"] {
            ours.write_all(piece.as_bytes()).await.unwrap();
            ours.flush().await.unwrap();
        }
        reads_on(ours).await
    });
    let mut seen = [0; 64];
    let length = callers.read(&mut seen).await.unwrap();
    assert_eq!(&seen[..length], b"headmessagetrailers");
    callers.write_all(b"bye").await.unwrap();
    drop(callers);
    assert_eq!(serving.await.unwrap(), b"bye");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_who_does_not_read_holds_the_writer_back_and_loses_nothing() {
    let (mut ours, mut callers) = pair();
    let all: Vec<u8> = (0..4_000_000_u32).map(|nth| nth.to_le_bytes()[nth as usize % 3]).collect();
    let sent = all.clone();
    let mut serving = tokio::spawn(async move {
        for piece in sent.chunks(16_384) {
            ours.write_all(piece).await.unwrap();
            ours.flush().await.unwrap();
        }
        reads_on(ours).await
    });
    let early = timeout(Duration::from_millis(50), &mut serving).await;
    assert!(early.is_err(), "nobody has read, and nobody has left");
    let mut seen = vec![0; all.len()];
    callers.read_exact(&mut seen).await.unwrap();
    assert!(seen == all, "the same bytes in the same order");
    drop(callers);
    assert_eq!(serving.await.unwrap(), b"");
}

#[tokio::test]
async fn reading_does_not_wait_for_room() {
    let (mut ours, mut callers) = pair();
    let filler = vec![7; 16 * 1024];
    let mut written = 0;
    while let Ok(done) = timeout(Duration::from_millis(20), ours.write_all(&filler)).await {
        done.unwrap();
        written += filler.len();
    }
    callers.write_all(b"word").await.unwrap();
    let mut word = [0; 4];
    ours.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"word");
    let serving = tokio::spawn(reads_on(ours));
    let mut seen = vec![0; written];
    callers.read_exact(&mut seen).await.unwrap();
    assert!(seen.iter().all(|byte| *byte == 7));
    drop(callers);
    assert_eq!(serving.await.unwrap(), b"");
}

#[tokio::test]
async fn a_shutdown_sends_what_is_held_first() {
    let (mut ours, callers) = pair();
    ours.write_all(b"last words").await.unwrap();
    ours.shutdown().await.unwrap();
    assert_eq!(reads_on(Connection::over(callers).unwrap()).await, b"last words");
}

#[tokio::test]
async fn to_a_caller_who_left_nothing_can_be_sent() {
    let (mut ours, callers) = pair();
    drop(callers);
    ours.write_all(b"anybody?").await.unwrap();
    assert_eq!(ours.read(&mut [0; 8]).await.unwrap(), 0);
    let refused = ours.shutdown().await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::BrokenPipe);
    assert!(ours.write_all(b"still?").await.is_err());
    ours.shutdown().await.unwrap();
}
