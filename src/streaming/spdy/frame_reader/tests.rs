//! Tests of what dockbridge keeps in memory for SPDY streams.

use bytes::{BufMut, BytesMut};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::{
    super::{control_frames::ControlQueue, header::tests::Deflater, limits::StreamCount},
    FrameReader,
};
use crate::streaming::inbox::Window;

/// A peer may leave its direction of a stream open after dockbridge has ended the other direction and dropped the
/// stream.
#[tokio::test]
async fn nothing_is_kept_of_streams_that_nobody_holds() {
    static POOL: Semaphore = Semaphore::const_new(0);
    let (offers, mut offered) = mpsc::channel(1);
    let (outbox, mut frames) = mpsc::channel(1);
    let start = (Window::default(), StreamCount::new(&POOL));
    let ways = (ControlQueue::new().0, outbox);
    let mut reader = FrameReader::new(start, CancellationToken::new(), offers.downgrade(), ways);
    let mut deflater = Deflater::default();
    for id in [1, 3, 5] {
        let block = deflater.deflate(&[]);
        let mut frame = BytesMut::from(&[0x80, 3, 0, 1][..]);
        frame.put_u32(u32::try_from(10 + block.len()).unwrap());
        frame.put_u32(id);
        frame.put_bytes(0, 6);
        frame.put_slice(&block);
        reader.take(&mut frame).await.unwrap();
        let (_, mut sender) = offered.recv().await.unwrap().accept();
        sender.finish().await.unwrap();
        frames.recv().await.unwrap();
        assert_eq!(reader.streams.len(), 1);
    }
}
