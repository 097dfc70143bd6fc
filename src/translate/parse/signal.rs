//! CRI's stop signals as Docker writes them.

use super::error::ParseError;
use crate::wire::cri;

/// `SIGTERM`, `RTMIN+3`, …; none means the image's signal or the engine's default.
///
/// # Errors
/// Refuses numbers that the interface does not define.
pub fn stop_signal(number: i32) -> Result<Option<String>, ParseError> {
    let signal = cri::Signal::try_from(number)
        .map_err(|_| ParseError::invalid(format!("is not a known signal: {number}")))?;
    if signal == cri::Signal::RuntimeDefault {
        return Ok(None);
    }
    let name = signal.as_str_name().trim_start_matches("SIGNAL_");
    Ok(Some(match name.strip_prefix("SIGRT") {
        Some(_) => {
            let offset = name.replace("PLUS", "+").replace("MINUS", "-");
            offset.trim_start_matches("SIG").to_owned()
        }
        None => name.to_owned(),
    }))
}
