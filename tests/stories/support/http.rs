//! The smallest HTTP client: one GET, the whole answer as text.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::failure::{Failure, Outcome};

/// Asks until somebody answers, for a few seconds: a server in a container needs a moment.
pub(crate) async fn get(address: &str) -> Outcome<String> {
    let mut last = Failure("never tried".to_owned());
    for _ in 0..50 {
        match timeout(Duration::from_secs(2), once(address)).await {
            Ok(Ok(text)) if text.starts_with("HTTP/1.") => return Ok(text),
            Ok(Ok(text)) => last = Failure(format!("answered {text:?}")),
            Ok(Err(error)) => last = error,
            Err(_late) => last = Failure("no answer in time".to_owned()),
        }
        sleep(Duration::from_millis(100)).await;
    }
    Err(Failure(format!("GET {address}: {last}")))
}

/// Whether nobody listens at the address.
pub(crate) async fn is_silent(address: &str) -> bool {
    !matches!(timeout(Duration::from_secs(1), once(address)).await, Ok(Ok(text)) if !text.is_empty())
}

async fn once(address: &str) -> Outcome<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET / HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}
