//! Tests of whole SPDY sessions. The test is the peer.

mod limits;

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use proptest::{collection::vec, prelude::*};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::{Semaphore, mpsc},
    time::timeout,
};

use super::{
    super::{
        frame,
        header::tests::Deflater,
        limits::StreamCount,
        stream::{Gone, Receiver, Sender},
    },
    Connection, run,
};
use crate::{
    host::socket::unsent_bytes,
    streaming::inbox::{LARGEST_PIECE, Window},
};

/// A frame that the peer receives.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Reply(u32),
    Reset(u32, u32),
    Ping(u32),
    GoAway(u32),
    Data(u32, Vec<u8>, bool),
}

/// The peer: the other side of a connection.
struct Peer<I = DuplexStream> {
    io: I,
    deflater: Deflater,
}

impl<I: AsyncReadExt + AsyncWriteExt + Unpin> Peer<I> {
    fn new(io: I) -> Self {
        Self { io, deflater: Deflater::default() }
    }

    async fn open(&mut self, id: u32, flags: u8) {
        let block = self.deflater.deflate(&[("Stream-Type", &["data"])]);
        let mut out = BytesMut::from(&[0x80, 3, 0, 1][..]);
        out.put_u32(u32::from(flags) << 24 | u32::try_from(10 + block.len()).unwrap());
        out.put_u32(id);
        out.put_bytes(0, 6);
        out.put_slice(&block);
        self.io.write_all(&out).await.unwrap();
    }

    async fn data(&mut self, id: u32, bytes: &[u8], last: bool) {
        let mut out = BytesMut::new();
        frame::data(id, last, bytes.len(), &mut out);
        out.put_slice(bytes);
        self.io.write_all(&out).await.unwrap();
    }

    async fn ping(&mut self, id: u32) {
        let mut out = BytesMut::new();
        frame::ping(id, &mut out);
        self.io.write_all(&out).await.unwrap();
    }

    async fn reset(&mut self, id: u32) {
        let mut out = BytesMut::new();
        frame::reset(id, frame::ResetReason::Cancel, &mut out);
        self.io.write_all(&out).await.unwrap();
    }

    /// The next frame; `None` once dockbridge has closed the connection.
    async fn next(&mut self) -> Option<Seen> {
        let first = self.io.read_u32().await.ok()?;
        let second = self.io.read_u32().await.unwrap();
        let mut body = vec![0; (second & 0x00ff_ffff) as usize];
        self.io.read_exact(&mut body).await.unwrap();
        if first < 0x8000_0000 {
            return Some(Seen::Data(first, body, second >> 24 & 1 == 1));
        }
        let number = |at: usize| u32::from_be_bytes(body[at..at + 4].try_into().unwrap());
        Some(match first & 0xffff {
            2 => Seen::Reply(number(0)),
            3 => Seen::Reset(number(0), number(4)),
            6 => Seen::Ping(number(0)),
            7 => Seen::GoAway(number(4)),
            kind => panic!("a frame of type {kind}"),
        })
    }
}

fn session() -> (Connection, Peer) {
    let (ours, theirs) = duplex(64 * 1024);
    (Connection::start(ours, Window::default()), Peer::new(theirs))
}

async fn accepted<I: AsyncReadExt + AsyncWriteExt + Unpin>(
    connection: &mut Connection,
    peer: &mut Peer<I>,
    id: u32,
) -> (Receiver, Sender) {
    peer.open(id, 0).await;
    let stream = connection.accept().await.unwrap().accept();
    assert_eq!(peer.next().await, Some(Seen::Reply(id)));
    stream
}

async fn everything(receiver: &mut Receiver) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(bytes) = receiver.next().await {
        all.extend_from_slice(&bytes);
    }
    all
}

#[tokio::test]
async fn each_side_ends_a_stream_for_itself() {
    let (mut connection, mut peer) = session();
    peer.open(1, 0).await;
    let offer = connection.accept().await.unwrap();
    assert_eq!((offer.id(), offer.header("STREAM-type")), (1, Some("data")));
    let (mut receiver, mut sender) = offer.accept();
    assert_eq!(peer.next().await, Some(Seen::Reply(1)));
    peer.data(1, b"question", false).await;
    peer.data(1, b"?", true).await;
    assert_eq!(everything(&mut receiver).await, b"question?");
    sender.send(Bytes::from_static(b"answer")).await.unwrap();
    sender.finish().await.unwrap();
    assert_eq!(sender.finish().await, Err(Gone));
    assert_eq!(peer.next().await, Some(Seen::Data(1, b"answer".to_vec(), false)));
    assert_eq!(peer.next().await, Some(Seen::Data(1, Vec::new(), true)));
    drop((receiver, sender));
    peer.ping(1).await;
    assert_eq!(peer.next().await, Some(Seen::Ping(1)), "an ended stream needs no more words");
    drop(connection);
    assert_eq!(peer.next().await, Some(Seen::GoAway(0)));
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn a_reset_of_the_peer_ends_both_halves() {
    let (mut connection, mut peer) = session();
    let (mut receiver, mut sender) = accepted(&mut connection, &mut peer, 1).await;
    peer.reset(1).await;
    assert_eq!(receiver.next().await, None);
    sender.closed().await;
    assert_eq!(sender.send(Bytes::from_static(b"x")).await, Err(Gone));
    drop((receiver, sender));
    peer.data(1, b"late", false).await;
    peer.ping(1).await;
    assert_eq!(peer.next().await, Some(Seen::Ping(1)));
}

#[tokio::test]
async fn our_reset_ends_both_halves() {
    let (mut connection, mut peer) = session();
    let (mut receiver, mut sender) = accepted(&mut connection, &mut peer, 1).await;
    sender.reset();
    sender.reset();
    assert_eq!(receiver.next().await, None);
    assert_eq!(peer.next().await, Some(Seen::Reset(1, 5)));
    assert_eq!(sender.finish().await, Err(Gone));
    peer.ping(1).await;
    assert_eq!(peer.next().await, Some(Seen::Ping(1)));
}

#[tokio::test]
async fn dropped_streams_are_reset() {
    let (mut connection, mut peer) = session();
    peer.open(1, 0).await;
    drop(connection.accept().await.unwrap());
    assert_eq!(peer.next().await, Some(Seen::Reset(1, 3)));

    let halves = accepted(&mut connection, &mut peer, 3).await;
    drop(halves);
    assert_eq!(peer.next().await, Some(Seen::Reset(3, 5)), "it still sends");

    let (mut receiver, sender) = accepted(&mut connection, &mut peer, 5).await;
    drop(sender);
    peer.data(5, b"input", true).await;
    assert_eq!(everything(&mut receiver).await, b"input", "a dropped sender harms no reader");
    drop(receiver);
    assert_eq!(peer.next().await, Some(Seen::Data(5, Vec::new(), true)), "used one way only");

    let (receiver, mut sender) = accepted(&mut connection, &mut peer, 7).await;
    sender.send(Bytes::from_static(b"half of it")).await.unwrap();
    assert_eq!(peer.next().await, Some(Seen::Data(7, b"half of it".to_vec(), false)));
    drop((receiver, sender));
    assert_eq!(peer.next().await, Some(Seen::Reset(7, 5)), "it broke off");
}

#[tokio::test]
async fn streams_may_be_one_way_from_the_start() {
    let (mut connection, mut peer) = session();
    peer.open(1, frame::FLAG_LAST).await;
    let (mut receiver, mut sender) = connection.accept().await.unwrap().accept();
    assert_eq!(receiver.next().await, None);
    sender.finish().await.unwrap();
    assert_eq!(peer.next().await, Some(Seen::Reply(1)));
    assert_eq!(peer.next().await, Some(Seen::Data(1, Vec::new(), true)));
    peer.open(3, frame::FLAG_ONE_WAY).await;
    let (mut receiver, mut sender) = connection.accept().await.unwrap().accept();
    assert_eq!(sender.send(Bytes::from_static(b"x")).await, Err(Gone));
    peer.data(3, b"x", true).await;
    assert_eq!(everything(&mut receiver).await, b"x");
}

#[tokio::test]
async fn what_was_handed_over_is_written_before_the_end() {
    let (mut connection, mut peer) = session();
    let (mut receiver, mut sender) = accepted(&mut connection, &mut peer, 1).await;
    for _ in 0..3 {
        sender.send(Bytes::from(vec![7; LARGEST_PIECE])).await.unwrap();
    }
    drop(connection);
    assert_eq!(receiver.next().await, None);
    sender.closed().await;
    for _ in 0..3 {
        assert_eq!(peer.next().await, Some(Seen::Data(1, vec![7; LARGEST_PIECE], false)));
    }
    assert_eq!(peer.next().await, Some(Seen::GoAway(0)));
    assert_eq!(peer.next().await, None);
}

#[tokio::test]
async fn a_peer_that_leaves_wakes_everybody() {
    let (mut connection, mut peer) = session();
    let (mut receiver, sender) = accepted(&mut connection, &mut peer, 1).await;
    let (_lazy, mut busy) = accepted(&mut connection, &mut peer, 3).await;
    let sending =
        tokio::spawn(
            async move { while busy.send(Bytes::from(vec![0; 64 * 1024])).await.is_ok() {} },
        );
    drop(peer);
    assert_eq!(receiver.next().await, None);
    sender.closed().await;
    sending.await.unwrap();
    assert!(connection.accept().await.is_none());
}

#[tokio::test]
async fn a_protocol_error_gets_an_answer_and_a_close() {
    let mut bomb = Deflater::default();
    let bomb = bomb.deflate(&[("bomb", &[&"0".repeat(1_000_000)])]);
    let mut frame = BytesMut::from(&[0x80, 3, 0, 1][..]);
    frame.put_u32(u32::try_from(10 + bomb.len()).unwrap());
    frame.put_slice(&[0, 0, 0, 3, 0, 0, 0, 0, 0, 0]);
    frame.put_slice(&bomb);
    for (name, bytes) in
        [("bomb", &frame[..]), ("noise", b"GET / HTTP/1.1\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff")]
    {
        let (mut connection, mut peer) = session();
        let mut other = accepted(&mut connection, &mut peer, 1).await;
        peer.io.write_all(bytes).await.unwrap();
        if name == "noise" {
            // `GET / HT` looks like the head of a long data frame of an unknown stream. The bytes 0xff are
            // its data, and then an invalid frame.
            peer.io.write_all(&vec![0xff; 0x0100_0000]).await.unwrap_or_default();
        }
        assert_eq!(peer.next().await, Some(Seen::GoAway(1)), "{name}");
        assert_eq!(other.0.next().await, None);
        assert!(connection.accept().await.is_none());
        assert_eq!(peer.next().await, None);
    }
}

#[tokio::test]
async fn numbers_of_streams_are_the_peers_and_grow() {
    for second in [0, 2, 1, 3] {
        let (mut connection, mut peer) = session();
        let _stream = accepted(&mut connection, &mut peer, 3).await;
        peer.open(second, 0).await;
        assert_eq!(peer.next().await, Some(Seen::GoAway(1)), "{second}");
    }
}

#[tokio::test]
async fn half_a_frame_and_silence_hold_nothing_up() {
    let (mut connection, mut peer) = session();
    let (_receiver, mut sender) = accepted(&mut connection, &mut peer, 1).await;
    peer.io.write_all(&[0x80, 3, 0, 1, 0, 0, 0, 50, 0, 0]).await.unwrap();
    sender.send(Bytes::from_static(b"still here")).await.unwrap();
    assert_eq!(peer.next().await, Some(Seen::Data(1, b"still here".to_vec(), false)));
    drop(connection);
    assert_eq!(peer.next().await, Some(Seen::GoAway(0)));
}

#[tokio::test]
async fn a_lagging_reader_holds_no_writer_up() {
    let (mut connection, mut peer) = session();
    let (mut lazy, _unused) = accepted(&mut connection, &mut peer, 1).await;
    let (_input, mut sender) = accepted(&mut connection, &mut peer, 3).await;
    // The 16 KiB fit into the window for received data.
    peer.data(1, &[1; 16 * 1024], false).await;
    peer.ping(1).await;
    assert_eq!(peer.next().await, Some(Seen::Ping(1)));
    let (mut reading, mut writing) = tokio::io::split(peer.io);
    let flood = tokio::spawn(async move {
        let mut head = BytesMut::new();
        frame::data(1, true, 4 << 20, &mut head);
        writing.write_all(&head).await.unwrap();
        writing.write_all(&vec![1; 4 << 20]).await.unwrap();
        writing
    });
    // dockbridge sends more data than the buffers for output can hold.
    tokio::spawn(async move { sender.send(Bytes::from(vec![2; 8 << 20])).await.unwrap() });
    let mut taken = 0;
    while taken < 8 << 20 {
        let first = reading.read_u32().await.unwrap();
        let length = (reading.read_u32().await.unwrap() & 0x00ff_ffff) as usize;
        reading.read_exact(&mut vec![0; length]).await.unwrap();
        taken += if first == 3 { length } else { 0 };
    }
    assert!(!flood.is_finished(), "the connection does not read on");
    assert_eq!(everything(&mut lazy).await.len(), (16 << 10) + (4 << 20));
    flood.await.unwrap();
}

#[tokio::test]
async fn a_dropped_reader_stops_nothing() {
    let (mut connection, mut peer) = session();
    let (lazy, _sender) = accepted(&mut connection, &mut peer, 1).await;
    let dropper = tokio::spawn(async move {
        tokio::task::yield_now().await;
        drop(lazy);
    });
    for _ in 0..64 {
        peer.data(1, &[1; 64 * 1024], false).await;
    }
    dropper.await.unwrap();
    peer.ping(1).await;
    while peer.next().await != Some(Seen::Ping(1)) {}
}

#[tokio::test]
async fn a_peer_that_takes_no_answers_is_not_read() {
    let (_connection, peer) = session();
    let (mut reading, mut writing) = tokio::io::split(peer.io);
    let flood = tokio::spawn(async move {
        let mut out = BytesMut::new();
        (0..50_000).for_each(|number| frame::ping(2 * number + 1, &mut out));
        writing.write_all(&out).await.unwrap();
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!flood.is_finished());
    let mut answers = vec![0; 12 * 50_000];
    reading.read_exact(&mut answers).await.unwrap();
    assert_eq!(&answers[answers.len() - 4..], 99_999_u32.to_be_bytes());
    flood.await.unwrap();
}

/// The task that reads cannot notice that the peer has disconnected, because unread bytes precede the end.
#[tokio::test]
async fn a_peer_that_vanishes_behind_a_full_queue_is_noticed() {
    for last in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = Peer::new(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
        let (ours, _) = listener.accept().await.unwrap();
        let mut connection = Connection::start(ours, Window::default());
        peer.open(1, 0).await;
        let (mut lazy, mut sender) = connection.accept().await.unwrap().accept();
        assert_eq!(peer.next().await, Some(Seen::Reply(1)));
        if last {
            sender.finish().await.unwrap();
            assert_eq!(peer.next().await, Some(Seen::Data(1, Vec::new(), true)));
        }
        let stuffed = async {
            loop {
                peer.data(1, &[1; 64 * 1024], false).await;
            }
        };
        assert!(timeout(Duration::from_millis(300), stuffed).await.is_err());
        drop(peer);
        timeout(Duration::from_secs(300), sender.closed()).await.unwrap();
        assert!(connection.accept().await.is_none());
        assert!(everything(&mut lazy).await.len() <= 1 << 20);
    }
}

/// Writes to the peer fail while data from the peer still waits for the reader of a stream.
#[tokio::test]
async fn what_a_peer_sent_before_it_left_is_delivered() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(256 * 1024).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let mut peer = Peer::new(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
    let (ours, _) = listener.accept().await.unwrap();
    let mut connection = Connection::start(ours, Window::default());
    let (mut late, sender) = accepted(&mut connection, &mut peer, 1).await;
    let sent: Vec<u8> = (0..150_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    peer.data(1, &sent, false).await;
    while unsent_bytes(&peer.io).unwrap() > 0 {
        tokio::task::yield_now().await;
    }
    drop(peer);
    sender.closed().await;
    assert!(connection.accept().await.is_none());
    assert!(everything(&mut late).await == sent);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn sessions_are_exact_to_the_byte(
        writes in vec((0_usize..4, 0_usize..100_000, any::<u8>()), 0..40), buffer in 1_usize..100_000
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(echo(writes, buffer));
    }
}

/// Sends bytes on four streams to an echo, and checks that the same bytes return.
async fn echo(writes: Vec<(usize, usize, u8)>, buffer: usize) {
    let (ours, theirs) = duplex(buffer);
    let mut connection = Connection::start(ours, Window::default());
    let mut peer = Peer::new(theirs);
    for id in [1, 3, 5, 7] {
        let (mut receiver, mut sender) = accepted(&mut connection, &mut peer, id).await;
        tokio::spawn(async move {
            while let Some(bytes) = receiver.next().await {
                sender.send(bytes).await.unwrap();
            }
            sender.finish().await.unwrap();
        });
    }
    let mut sent = [const { Vec::new() }; 4];
    let mut out = BytesMut::new();
    for (stream, length, byte) in writes {
        let bytes: Vec<u8> = (0..length).map(|at| byte.wrapping_add(at.to_le_bytes()[0])).collect();
        frame::data(u32::try_from(2 * stream + 1).unwrap(), false, length, &mut out);
        out.put_slice(&bytes);
        sent[stream].extend_from_slice(&bytes);
    }
    [1, 3, 5, 7].into_iter().for_each(|id| frame::data(id, true, 0, &mut out));
    let (reading, mut writing) = tokio::io::split(peer.io);
    tokio::spawn(async move { writing.write_all(&out).await.unwrap() });
    let mut peer = Peer::new(tokio::io::join(reading, tokio::io::sink()));
    let (mut back, mut ended) = ([const { Vec::new() }; 4], 0);
    while ended < 4 {
        if let Some(Seen::Data(id, bytes, last)) = peer.next().await {
            back[(id as usize - 1) / 2].extend_from_slice(&bytes);
            ended += usize::from(last);
        }
    }
    assert!(back == sent);
}
