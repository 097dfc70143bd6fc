//! Messages that an engine sends as the output of a command that it could not start.
//!
//! The engine reports a failed start of a command with exit code 126, 127 or 128, or without an exit code. That the
//! program does not exist is a result of the command. That containerd cannot be reached is not a result of the command:
//! as the answer to a liveness probe, an exit code would make kubelet restart a healthy container.

/// Whether the command was not started because of the container: the program, or with runc the working
/// directory, is missing or cannot be used. All other failures count as problems of the node.
pub(super) fn is_of_the_command(said: &[u8]) -> bool {
    let said = String::from_utf8_lossy(said);
    let Some(reason) = said.trim_start().strip_prefix(RUNTIME_SAYS) else { return false };
    match reason.strip_prefix(RUNC_SAYS) {
        Some(reason) => RUNC_REASONS.iter().any(|words| reason.contains(words)),
        None => CRUN_REASONS.iter().any(|words| reason.starts_with(words)),
    }
}

/// Docker's message begins with this text if the OCI runtime cannot start a command or cannot be called.
const RUNTIME_SAYS: &str = "OCI runtime exec failed: ";

const RUNC_SAYS: &str = "exec failed: ";

/// runc's error contains one of these texts if a command's program or working directory cannot be used.
const RUNC_REASONS: [&str; 2] = ["exec: \"", "chdir to cwd"];

const CRUN_REASONS: [&str; 2] = ["executable file `", "open executable: "];

#[cfg(test)]
mod tests {
    use super::is_of_the_command;

    #[test]
    fn a_message_about_the_command_is_its_outcome() {
        for reason in [
            // Messages of runc 1.0, 1.1 and 1.3, and at the end one of crun.
            "exec failed: container_linux.go:380: starting container process caused: exec: \"x\": \
             executable file not found in $PATH: unknown",
            "exec failed: unable to start container process: exec: \"/n/x\": stat /n/x: not a \
             directory: unknown: Are you trying to mount a directory onto a file (or vice-versa)?",
            "exec failed: unable to start container process: exec: \"/d\": is a directory: \
             permission denied",
            "exec failed: unable to start container process: exec: \"/l\": stat /l: too many \
             levels of symbolic links",
            "exec failed: unable to start container process: chdir to cwd (\"/gone\") set in \
             config.json failed: no such file or directory: unknown",
            "executable file `x` not found in $PATH: No such file or directory: unknown",
        ] {
            let said = format!("OCI runtime exec failed: {reason}\r\n");
            assert!(is_of_the_command(said.as_bytes()), "{reason}");
        }
    }

    #[test]
    fn any_other_message_is_an_error_of_the_engine() {
        for said in [
            "",
            "context canceled",
            "ttrpc: closed: unknown",
            "exec: \"x\": executable file not found in $PATH",
            "OCI runtime exec failed: exec failed: cannot exec in a stopped container: unknown",
            "OCI runtime exec failed: exec failed: unable to start container process: read init-p: \
             connection reset by peer: unknown",
            "OCI runtime exec failed: open /tmp/runc-process1: no space left on device: unknown",
            "OCI runtime exec failed: unable to retrieve OCI runtime error (open log.json: no such \
             file or directory): exec: \"runc\": executable file not found in $PATH: unknown",
        ] {
            assert!(!is_of_the_command(said.as_bytes()), "{said}");
        }
    }
}
