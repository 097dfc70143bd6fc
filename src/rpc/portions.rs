//! Lists in portions: what one answer would hold, in as many messages as it takes.
//!
//! A list of a full node may outgrow what a client takes in one message. What is told is settled
//! before the first portion; a client who leaves ends it, and so does the end of dockbridge, as an
//! error: a list that was cut must not look whole.

use futures_util::{StreamExt, stream};
use prost::Message;
use tokio_util::sync::CancellationToken;
use tonic::{Response, Status, codegen::BoxStream};

use super::status::status;
use crate::error::Kind;

/// Answers with `items` in portions, each of which `told` makes a message; nothing at all when there
/// are none. An item is a message or the bytes of one: as a `Message` these count with the bytes
/// their field takes.
pub fn portions<I, T, R>(
    items: I,
    told: fn(Vec<T>) -> R,
    leaving: CancellationToken,
) -> Response<BoxStream<R>>
where
    I: Iterator<Item = T> + Send + 'static,
    T: Message + 'static,
    R: Send + 'static,
{
    let portions = Portions { items, held: None };
    let messages = stream::unfold(Some(portions), move |portions| {
        let ending = leaving.is_cancelled();
        async move {
            let mut portions = portions?;
            if ending {
                let reason = "dockbridge is ending: the list is not whole".to_owned();
                return Some((Err(status(Kind::Unavailable, reason)), None));
            }
            let portion = portions.next()?;
            Some((Ok::<R, Status>(told(portion)), Some(portions)))
        }
    });
    Response::new(messages.boxed())
}

/// Items in groups that are neither too many nor too large, in their order; never an empty one.
#[derive(Debug)]
pub(super) struct Portions<I: Iterator> {
    pub(super) items: I,
    /// Taken, and too large for the last portion.
    pub(super) held: Option<I::Item>,
}

impl<I: Iterator<Item: Message>> Iterator for Portions<I> {
    type Item = Vec<I::Item>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.held.take().or_else(|| self.items.next())?;
        let mut size = first.encoded_len();
        let mut portion = vec![first];
        while portion.len() < MOST_ITEMS {
            let Some(item) = self.items.next() else { break };
            size = size.saturating_add(item.encoded_len());
            if size > MOST_BYTES {
                self.held = Some(item);
                break;
            }
            portion.push(item);
        }
        Some(portion)
    }
}

/// Items of a message.
pub(super) const MOST_ITEMS: usize = 500;
/// Bytes of a message's items; one item may be larger.
pub(super) const MOST_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests;
