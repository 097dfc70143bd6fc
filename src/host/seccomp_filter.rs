//! Reads the seccomp filter of another process from the kernel.

use std::{io, ptr};

use nix::{
    errno::Errno,
    libc::{self, c_void},
    sys::wait::{WaitPidFlag, waitpid},
    unistd::Pid,
};

/// The oldest seccomp filter of the process, as an array of `struct sock_filter`. None if the process has
/// no filter. Stops the process for a moment.
///
/// # Errors
/// The process does not exist or is traced, or the calling process has a seccomp filter or lacks `CAP_SYS_ADMIN`.
pub fn of_process(pid: u32) -> io::Result<Option<Vec<u8>>> {
    let pid = i32::try_from(pid).map_err(|_| Errno::ESRCH)?;
    trace(libc::PTRACE_ATTACH, pid, 0, ptr::null_mut())?;
    let read = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::__WALL))
        .map_err(io::Error::from)
        .and_then(|_| filter(pid));
    // Detaching fails if the process has ended.
    let _ = trace(libc::PTRACE_DETACH, pid, 0, ptr::null_mut());
    read
}

fn filter(pid: i32) -> io::Result<Option<Vec<u8>>> {
    let instructions = match trace(GET_FILTER, pid, 0, ptr::null_mut()) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(None),
        count => count?,
    };
    let mut program = vec![0_u8; usize::try_from(instructions).unwrap_or_default() * INSTRUCTION];
    trace(GET_FILTER, pid, 0, program.as_mut_ptr().cast())?;
    Ok(Some(program))
}

#[allow(unsafe_code, reason = "nix has no function for PTRACE_SECCOMP_GET_FILTER")]
fn trace(request: libc::c_uint, pid: i32, address: usize, data: *mut c_void) -> io::Result<i64> {
    // SAFETY: the kernel writes to `data` only for GET_FILTER. For GET_FILTER, `data` is null, or has space for the
    // number of instructions that the kernel returned before; the oldest filter of a process does not change.
    let answer = unsafe { libc::ptrace(request, pid, address, data) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// `PTRACE_SECCOMP_GET_FILTER` of `linux/ptrace.h`.
const GET_FILTER: libc::c_uint = 0x420c;
const INSTRUCTION: usize = 8;
