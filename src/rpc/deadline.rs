//! The caller's deadline. Shortly before the deadline, dockbridge answers with an error that names the Docker
//! call, if any, for which it probably waits. Without this error, the caller would not learn why the call was late.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::timeout;
use tonic::Status;

use crate::telemetry::in_progress::RunningOperation;

/// The timeout in the header `grpc-timeout`, if it is valid.
pub(super) fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_valid = digits.len() <= MOST_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: u64 = is_valid.then(|| digits.parse().ok())??;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

/// Runs `work`. Fails with `limit` shortly before `limit` expires.
pub(super) async fn within<T>(
    limit: Option<Duration>,
    work: impl Future<Output = T>,
) -> Result<T, Duration> {
    let Some(limit) = limit else { return Ok(work.await) };
    let margin = (limit / 10).min(LONGEST_MARGIN);
    timeout(limit - margin, work).await.map_err(|_| limit)
}

/// The error for a call that missed its deadline. If Docker calls are running, names the one for which the CRI call
/// probably waited: the longest-running one that began during the CRI call, otherwise the longest-running of all.
pub(super) fn exceeded(limit: Duration, calls: Vec<RunningOperation>) -> Status {
    let longest = calls.into_iter().max_by_key(|call| (call.elapsed <= limit, call.elapsed));
    let waits = longest.map_or_else(
        || "no call to the docker engine is in progress".to_owned(),
        |call| {
            format!("the docker engine has not answered {:?} for {:.1?}", call.what, call.elapsed)
        },
    );
    Status::deadline_exceeded(format!(
        "the call takes longer than the caller's time limit ({limit:?}): {waits}"
    ))
}

/// dockbridge sends a deadline error at most this long before the caller's deadline, so that the error still arrives.
const LONGEST_MARGIN: Duration = Duration::from_millis(250);
/// Maximum number of digits of a timeout, as gRPC defines it.
const MOST_DIGITS: usize = 8;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn times_are_read_as_grpc_writes_them() {
        for (text, wanted) in [
            ("1S", Some(Duration::from_secs(1))),
            ("2M", Some(Duration::from_secs(120))),
            ("3H", Some(Duration::from_secs(10_800))),
            ("250m", Some(Duration::from_millis(250))),
            ("99999999u", Some(Duration::from_micros(99_999_999))),
            ("7n", Some(Duration::from_nanos(7))),
            ("99999999H", Some(Duration::from_secs(99_999_999 * 3600))),
            ("999999999S", None),
            ("", None),
            ("S", None),
            ("-1S", None),
            ("1", None),
            ("1s", None),
            ("1\u{b5}", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", HeaderValue::from_bytes(text.as_bytes()).unwrap());
            assert_eq!(grpc_timeout(&headers), wanted, "{text:?}");
        }
        assert_eq!(grpc_timeout(&HeaderMap::new()), None);
    }

    #[test]
    fn calls_that_began_before_the_cri_call_are_named_last() {
        let operation = |what: &str, seconds| RunningOperation {
            kind: "engine",
            what: what.to_owned(),
            elapsed: Duration::from_secs(seconds),
        };
        let message = |calls: Vec<RunningOperation>| {
            exceeded(Duration::from_secs(10), calls).message().to_owned()
        };
        let another = || operation("stop container other", 60);
        let ours = || operation("create container ours", 9);
        assert!(
            message(vec![another(), ours(), operation("ping", 1)])
                .contains("create container ours")
        );
        // A CRI call can also wait for a Docker call that another CRI call made.
        assert!(message(vec![another()]).contains("stop container other"));
        assert!(message(Vec::new()).contains("no call"));
    }
}
