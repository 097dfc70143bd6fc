//! Tests of connections over a pair of sockets: written bytes arrive at once, a write to a full socket waits,
//! and no bytes are lost.

use std::{
    io::{ErrorKind, Read as _},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    sync::oneshot,
    time::timeout,
};

use super::Connection;

/// Two connected sockets: the server's and the client's.
fn pair() -> (Connection, UnixStream) {
    let (ours, callers) = UnixStream::pair().unwrap();
    (Connection::new(ours, Duration::from_secs(600)).unwrap(), callers)
}

#[tokio::test]
async fn what_was_written_is_there() {
    let (mut ours, callers) = pair();
    let mut callers = callers.into_std().unwrap();
    let mut seen = [0; 64];
    assert_eq!(callers.read(&mut seen).unwrap_err().kind(), ErrorKind::WouldBlock);
    ours.write_all(b"answer").await.unwrap();
    assert_eq!(callers.read(&mut seen).unwrap(), 6, "nobody had another turn");
    ours.write_all(b"bye").await.unwrap();
    ours.shutdown().await.unwrap();
    assert_eq!(callers.read(&mut seen).unwrap(), 3);
    assert_eq!(callers.read(&mut seen).unwrap(), 0);
}

#[tokio::test]
async fn what_comes_in_pieces_is_read_to_the_end() {
    let (mut ours, mut callers) = pair();
    let reading = tokio::spawn(async move {
        let mut read = Vec::new();
        ours.read_to_end(&mut read).await.unwrap();
        read
    });
    let mut sent = Vec::new();
    for length in [1, 31, 32, 33, 70_000, 5] {
        let piece = vec![b'a'; length];
        callers.write_all(&piece).await.unwrap();
        sent.extend(piece);
        tokio::task::yield_now().await;
    }
    drop(callers);
    assert!(reading.await.unwrap() == sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_blocks_the_writer_and_loses_nothing() {
    let (mut ours, mut callers) = pair();
    let all: Vec<u8> = (0..4_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let sent = all.clone();
    let mut writing = tokio::spawn(async move {
        ours.write_all(&sent).await.unwrap();
        ours
    });
    let early = timeout(Duration::from_millis(50), &mut writing).await;
    assert!(early.is_err(), "nobody has read");
    let mut seen = vec![0; all.len()];
    callers.read_exact(&mut seen).await.unwrap();
    assert!(seen == all, "the same bytes in the same order");
    let mut ours = writing.await.unwrap();
    callers.write_all(b"word").await.unwrap();
    let mut word = [0; 4];
    ours.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"word", "it reads on");
}

#[tokio::test]
async fn a_writer_held_back_learns_that_the_caller_left() {
    let (mut ours, callers) = pair();
    let writing = tokio::spawn(async move { ours.write_all(&[7; 4_000_000]).await });
    // Runs the writing task until it waits.
    tokio::task::yield_now().await;
    drop(callers);
    let error = writing.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
}

#[tokio::test]
async fn a_full_connection_still_reads() {
    let (mut ours, mut callers) = pair();
    let full = timeout(Duration::from_millis(20), ours.write_all(&[7; 4_000_000])).await;
    assert!(full.is_err());
    callers.write_all(b"word").await.unwrap();
    let mut word = [0; 4];
    ours.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"word");
}

#[tokio::test]
async fn a_full_connection_reports_reads_to_a_waiter_for_both() {
    let (ours, mut callers) = pair();
    let (mut reader, mut writer) = tokio::io::split(ours);
    let (told, heard) = oneshot::channel();
    let serving = tokio::spawn(async move {
        // One task reads and writes, as in HTTP/2. The task already waits for bytes when its writes fill the socket.
        let reading = async {
            let mut word = [0; 4];
            reader.read_exact(&mut word).await.unwrap();
            told.send(word).unwrap();
        };
        tokio::join!(reading, writer.write_all(&[7; 4_000_000])).1.unwrap();
    });
    tokio::task::yield_now().await;
    callers.write_all(b"word").await.unwrap();
    let word = timeout(Duration::from_secs(300), heard).await.unwrap().unwrap();
    assert_eq!(&word, b"word");
    callers.read_exact(&mut vec![0; 4_000_000]).await.unwrap();
    serving.await.unwrap();
}
