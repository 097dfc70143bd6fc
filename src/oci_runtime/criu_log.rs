//! Finds the lines in CRIU's log and in the runtime's output that say why a container checkpoint or a restore failed.

use std::time::Duration;

/// Joins the last error lines of CRIU's log, or the last lines of the runtime's output if the log has none.
pub fn reason(log: &str, output: &str) -> String {
    let errors = log.lines().filter(|line| line.contains("Error ("));
    let mut lines: Vec<&str> = errors.map(without_time).collect();
    if lines.is_empty() {
        lines = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    }
    let first = lines.len().saturating_sub(MOST_LINES);
    let said = lines.get(first..).unwrap_or_default().join("; ");
    let said: String = said.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if said.is_empty() { "the logs give no reason".to_owned() } else { said }
}

/// The error for a restore that dockbridge-runtime stopped at its time limit, with the last line of CRIU's log.
pub(super) fn unfinished(log: &str, limit: Duration) -> String {
    let last = log.lines().next_back().map_or("CRIU wrote no log", without_time);
    reason("", &format!("CRIU had not ended after {}s: {last}", limit.as_secs()))
}

/// Whether the text says that a disk is full, in the words of CRIU (`No space …`) or of runc (`no space …`).
pub fn is_disk_full(text: &str) -> bool {
    text.contains("o space left on device")
}

/// A line of CRIU's log without its prefix: the time since the start of CRIU, in parentheses.
fn without_time(line: &str) -> &str {
    let rest = line.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    rest.map_or(line, |(_, rest)| rest).trim()
}

const MOST_LINES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_errors_of_the_log_are_the_reason() {
        let log = "(00.000010) Version: 4.2.1\n(00.1) Error (criu/files-ext.c:98): Can't dump file 5\n\
                   (00.2) Warn  (criu/x.c:1): no matter\n(00.3) Error (criu/cr-dump.c:2): Dumping FAILED.\n";
        let wanted = "Error (criu/files-ext.c:98): Can't dump file 5; Error (criu/cr-dump.c:2): Dumping FAILED.";
        assert_eq!(reason(log, "runc: criu failed"), wanted);
        assert_eq!(reason("", " criu: not found\u{1b}[m\n\n"), "criu: not found [m");
        assert_eq!(reason("", ""), "the logs give no reason");
        let many = "Error (a): 1\nError (a): 2\nError (a): 3\nError (a): 4\n";
        assert_eq!(reason(many, ""), "Error (a): 2; Error (a): 3; Error (a): 4");
        let unfinished = unfinished(log, Duration::from_secs(9));
        let wanted = "CRIU had not ended after 9s: Error (criu/cr-dump.c:2): Dumping FAILED.";
        assert_eq!(unfinished, wanted);
    }

    #[test]
    fn a_full_disk_is_seen_in_the_words_of_criu_and_of_runc() {
        assert!(is_disk_full(
            "Error (criu/page-xfer.c:1): Unable to write: No space left on device"
        ));
        assert!(is_disk_full("mkdir /c/checkpoint: no space left on device"));
        assert!(!is_disk_full("Error (criu/files-ext.c:98): Can't dump file 5"));
    }
}
