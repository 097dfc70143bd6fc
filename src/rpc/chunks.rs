//! Sends the items of a list in a single message, or as a stream of messages.
//!
//! The list of a full node may be larger than the message that a client accepts. dockbridge determines all items before
//! the first message of a stream. If dockbridge stops, the stream ends with an error, and so does not look complete.

use std::iter::Peekable;

use futures_util::{StreamExt, stream};
use prost::Message;
use tokio_util::sync::CancellationToken;
use tonic::{Response, Status, codegen::BoxStream};

use super::status::status;
use crate::error::Kind;

/// Streams `items` (messages or encoded bytes) in chunks. Without items, the stream has no message.
pub fn chunks<I, T, R>(
    items: I,
    to_message: fn(Vec<T>) -> R,
    shutdown: CancellationToken,
) -> Response<BoxStream<R>>
where
    I: Iterator<Item = T> + Send + 'static,
    T: Message + 'static,
    R: Send + 'static,
{
    let messages = stream::unfold(Some(items.peekable()), move |items| {
        let ending = shutdown.is_cancelled();
        async move {
            let mut items = items?;
            if ending {
                let reason = "dockbridge is shutting down: the list is incomplete".to_owned();
                return Some((Err(status(Kind::Unavailable, reason)), None));
            }
            Some((Ok::<R, Status>(to_message(next_chunk(&mut items)?)), Some(items)))
        }
    });
    Response::new(messages.boxed())
}

/// Answers with the whole list in one message.
///
/// # Errors
/// Fails if the list is larger than a message may be. The error names `streamed`, the RPC that streams the list.
pub fn whole<R: Message>(list: R, streamed: &str) -> Result<Response<R>, Status> {
    let size = list.encoded_len();
    if size <= LARGEST_MESSAGE {
        return Ok(Response::new(list));
    }
    let text = format!(
        "the list has {size} bytes, and a message can have at most {LARGEST_MESSAGE}: call \
         {streamed} instead"
    );
    Err(status(Kind::ResourceExhausted, text))
}

/// The next items: at most [`MOST_ITEMS`], and at most [`MOST_BYTES`] or a single item. `None` after the last item.
fn next_chunk<I: Iterator<Item: Message>>(items: &mut Peekable<I>) -> Option<Vec<I::Item>> {
    let mut chunk = vec![items.next()?];
    let mut size: usize = chunk.iter().map(Message::encoded_len).sum();
    while chunk.len() < MOST_ITEMS
        && let Some(item) = items.next_if(|item| size + item.encoded_len() <= MOST_BYTES)
    {
        size += item.encoded_len();
        chunk.push(item);
    }
    Some(chunk)
}

/// Maximum size of a gRPC message in bytes. kubelet refuses larger answers, and dockbridge refuses larger requests.
pub(super) const LARGEST_MESSAGE: usize = 16 * 1024 * 1024;
/// Maximum number of items in a message of a streamed list.
pub(super) const MOST_ITEMS: usize = 500;
/// Maximum size of all items in a message of a streamed list, in bytes. A message with a single item may be larger.
pub(super) const MOST_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests;
