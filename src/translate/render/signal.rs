//! Docker's names of signals as CRI's numbers.

use crate::wire::cri::Signal;

/// The stop signal. None means the engine's default. An unknown name stays unset.
pub(super) fn stop_signal(spelling: Option<&str>) -> Signal {
    let Some(spelling) = spelling.filter(|text| !text.is_empty()) else { return Signal::Sigterm };
    named(spelling).or_else(|| numbered(spelling)).unwrap_or(Signal::RuntimeDefault)
}

/// `SIGTERM`, `term`, `RTMIN+3`, `SIGRTMAX-1`.
fn named(spelling: &str) -> Option<Signal> {
    let upper = spelling.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    let name = bare.replace('+', "PLUS").replace('-', "MINUS");
    Signal::from_str_name(&format!("SIGNAL_SIG{name}"))
}

/// A Linux signal number, which Dockerfiles may contain.
fn numbered(spelling: &str) -> Option<Signal> {
    let number: usize = spelling.parse().ok()?;
    let name = match number {
        1..=31 => (*SIGNALS.get(number - 1)?).to_owned(),
        34 => "RTMIN".to_owned(),
        35..=49 => format!("RTMIN+{}", number - 34),
        50..=63 => format!("RTMAX-{}", 64 - number),
        64 => "RTMAX".to_owned(),
        _ => return None,
    };
    named(&name)
}

/// Signals 1 to 31 with their numbers on x86-64 and arm64.
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];
