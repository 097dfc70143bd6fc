//! A plugin that runs in parallel with dockbridge, and inherits one end of a socket pair as descriptor 3. The
//! plugin is killed when its [`PluginProcess`] is dropped, and when dockbridge is killed.

use std::{
    io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::Path,
    process::Stdio,
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    libc,
    sys::{prctl::set_pdeathsig, signal::Signal},
};
use tokio::process::Command;

use super::process::ProcessGroup;

/// The running plugin. Dropping a `PluginProcess` kills the plugin's process group.
#[derive(Debug)]
pub struct PluginProcess(
    #[allow(dead_code, reason = "dropping the value kills the plugin")] ProcessGroup,
);

impl PluginProcess {
    /// Starts a plugin that has only these environment variables, and `/dev/null` as standard input, output and error.
    pub fn start(
        program: &Path,
        environment: &[(&str, &str)],
        socket: UnixStream,
    ) -> io::Result<Self> {
        let socket = OwnedFd::from(socket);
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        inherit(&mut command, &socket);
        Ok(Self(ProcessGroup::of(command.spawn()?)))
    }
}

#[allow(unsafe_code, reason = "the child's descriptors can be set only between fork and exec")]
fn inherit(command: &mut Command, socket: &OwnedFd) {
    let descriptor = socket.as_raw_fd();
    let hand_over = move || {
        // The kernel sends SIGKILL to the plugin when the thread that started the plugin ends. Worker threads of tokio
        // end only with dockbridge, but threads of `blocking` may end earlier, so they must not start plugins.
        set_pdeathsig(Signal::SIGKILL)?;
        if descriptor == INHERITED {
            // SAFETY: the descriptor belongs to the parent, which keeps it open until the child has been spawned.
            let kept = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
            fcntl(kept, FcntlArg::F_SETFD(FdFlag::empty()))?;
            return Ok(());
        }
        // SAFETY: dup2 takes two numbers, and may be called between fork and exec.
        match unsafe { libc::dup2(descriptor, INHERITED) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    // SAFETY: the closure does not allocate, and calls only prctl, dup2 and fcntl.
    unsafe { command.pre_exec(hand_over) };
}

/// The number of the inherited descriptor: the first after standard input, output and error.
const INHERITED: i32 = 3;
