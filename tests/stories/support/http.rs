//! A minimal HTTP client: one GET, with the whole answer as text.

use std::time::{Duration, Instant};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{
    failure::{Failure, Outcome},
    patience::patient,
};

/// Repeats the request for up to two minutes (longer on a slow machine) until there is an HTTP answer, because a
/// server in a container needs a moment to start.
pub(crate) async fn get(address: &str) -> Outcome<String> {
    let deadline = Instant::now() + patient(Duration::from_secs(120));
    loop {
        let last = match timeout(patient(Duration::from_secs(10)), once(address)).await {
            Ok(Ok(text)) if text.starts_with("HTTP/1.") => return Ok(text),
            Ok(Ok(text)) => Failure(format!("answered {text:?}")),
            Ok(Err(error)) => error,
            Err(_late) => Failure("no answer in time".to_owned()),
        };
        if Instant::now() > deadline {
            return Err(Failure(format!("GET {address}: {last}")));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Whether no server listens at the address: the connection fails, or is closed without an answer. Fails if this
/// is not clear within a minute (longer on slow machines).
pub(crate) async fn is_silent(address: &str) -> Outcome<bool> {
    let answer = timeout(patient(Duration::from_secs(60)), once(address)).await?;
    Ok(answer.map_or(true, |text| text.is_empty()))
}

async fn once(address: &str) -> Outcome<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET / HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}
