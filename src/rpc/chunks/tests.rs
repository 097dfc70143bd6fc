//! Tests how dockbridge splits lists of any length and size into the messages of a stream.

use futures_util::StreamExt;
use proptest::prelude::*;
use prost::Message;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::{LARGEST_MESSAGE, MOST_BYTES, MOST_ITEMS, chunks, next_chunk, whole};
use crate::wire::cri;

/// An image whose CRI message has about `bytes` bytes.
fn image(number: usize, bytes: usize) -> cri::Image {
    cri::Image { id: number.to_string(), username: "x".repeat(bytes), ..Default::default() }
}

fn to_message(images: Vec<cri::Image>) -> cri::StreamImagesResponse {
    cri::StreamImagesResponse { images }
}

/// Random sizes of items: many small ones, some that fill a message, and some near the limits.
fn sizes() -> impl Strategy<Value = Vec<usize>> {
    let large = prop_oneof![
        0..100_usize,
        MOST_BYTES / 3..MOST_BYTES / 2,
        MOST_BYTES - 40..MOST_BYTES + 40,
        2 * MOST_BYTES..3 * MOST_BYTES,
    ];
    prop_oneof![
        prop::collection::vec(large, 0..12),
        (0..3 * MOST_ITEMS).prop_map(|count| vec![7; count]),
        (0..2 * MOST_ITEMS).prop_map(|count| vec![MOST_BYTES / 300; count]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_is_lost_doubled_or_moved(sizes in sizes()) {
        let all: Vec<_> = sizes.iter().enumerate().map(|(at, size)| image(at, *size)).collect();
        let mut items = all.clone().into_iter().peekable();
        let chunks: Vec<Vec<cri::Image>> =
            std::iter::from_fn(|| next_chunk(&mut items)).collect();
        for (at, chunk) in chunks.iter().enumerate() {
            let size = |items: &[cri::Image]| items.iter().map(Message::encoded_len).sum::<usize>();
            prop_assert!(!chunk.is_empty() && chunk.len() <= MOST_ITEMS);
            prop_assert!(size(chunk) <= MOST_BYTES || chunk.len() == 1);
            if let Some(next) = chunks.get(at + 1) {
                let full = chunk.len() == MOST_ITEMS
                    || size(chunk) + next[0].encoded_len() > MOST_BYTES;
                prop_assert!(full, "a portion of {} ended early", chunk.len());
            }
        }
        prop_assert!(chunks.concat() == all);
    }
}

#[tokio::test]
async fn an_empty_list_ends_at_once() {
    let none = chunks(std::iter::empty(), to_message, CancellationToken::new());
    assert!(none.into_inner().next().await.is_none());
}

/// A client that received half of a list must be able to notice that the list is incomplete.
#[tokio::test]
async fn a_list_that_is_cut_ends_with_an_error() {
    let shutdown = CancellationToken::new();
    let items = (0..3).map(|number| image(number, MOST_BYTES));
    let mut stream = chunks(items, to_message, shutdown.clone()).into_inner();
    assert_eq!(stream.next().await.unwrap().unwrap().images[0].id, "0");
    shutdown.cancel();
    let cut = stream.next().await.unwrap().unwrap_err();
    assert_eq!(cut.code(), Code::Unavailable);
    assert!(stream.next().await.is_none());
}

/// A list larger than kubelet accepts fails with the same gRPC code as in containerd.
#[test]
fn a_list_that_fits_no_message_names_the_call_that_streams_it() {
    let list = |bytes| cri::ListImagesResponse { images: vec![image(0, bytes)] };
    let overhead = list(LARGEST_MESSAGE).encoded_len() - LARGEST_MESSAGE;
    whole(list(LARGEST_MESSAGE - overhead), "StreamImages").unwrap();
    let refused = whole(list(LARGEST_MESSAGE - overhead + 1), "StreamImages").unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("StreamImages"), "{refused}");
}
