//! Writes an error to the file of `--log` in runc's format, because the engine reads it there.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::Path,
};

use serde_json::json;

/// Reports an error of the runtime: to the log, and to standard error for people who run it by hand.
pub(super) fn report(log: Option<&Path>, is_json: bool, message: &str) {
    let _ = writeln!(io::stderr(), "dockbridge-runtime: {message}");
    let Some(log) = log else { return };
    let line = match is_json {
        true => json!({"level": "error", "msg": format!("dockbridge-runtime: {message}"), "time": now()})
            .to_string(),
        false => format!("time=\"{}\" level=error msg={:?}", now(), message),
    };
    let opened = OpenOptions::new().create(true).append(true).open(log);
    // If the log cannot be written, there is no way to report that.
    let _ = opened.and_then(|mut file| writeln!(file, "{line}"));
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
