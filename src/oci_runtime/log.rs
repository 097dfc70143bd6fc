//! Writes an error to the file of `--log`, in runc's form: the engine reads it there.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    path::Path,
};

use serde_json::json;

/// Reports a failure of the runtime: to the log, and to standard error for who runs it by hand.
pub(super) fn report(log: Option<&Path>, is_json: bool, message: &str) {
    let _ = writeln!(io::stderr(), "dockbridge-runtime: {message}");
    let Some(log) = log else { return };
    let line = match is_json {
        true => json!({"level": "error", "msg": format!("dockbridge-runtime: {message}"), "time": now()})
            .to_string(),
        false => format!("time=\"{}\" level=error msg={:?}", now(), message),
    };
    let opened = OpenOptions::new().create(true).append(true).open(log);
    // A log that cannot be written cannot be reported either.
    let _ = opened.and_then(|mut file| writeln!(file, "{line}"));
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
