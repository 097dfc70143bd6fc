//! Reads the resources of a process from `/proc`, limits its file descriptors, and freezes it.

use std::{collections::BTreeSet, fs, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

use super::{
    failure::{Failure, Outcome, ensure, fail},
    patience::{Looks, patient},
};

/// A process that is frozen until the value is dropped, which also happens if the test fails or exceeds its time.
#[allow(dead_code, reason = "tests ask for it, measurements do not")]
#[derive(Debug)]
pub(crate) struct Stopped(Pid);

#[allow(dead_code, reason = "tests ask for it, measurements do not")]
impl Stopped {
    pub(crate) fn stop(pid: Pid) -> Outcome<Self> {
        kill(pid, Signal::SIGSTOP)?;
        Ok(Self(pid))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = kill(self.0, Signal::SIGCONT);
    }
}

/// A process whose resources are read from `/proc`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process(pub(crate) u32);

impl Process {
    /// The number of the process's open file descriptors.
    pub(crate) fn descriptors(self) -> Outcome<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.0))?.count())
    }

    /// The targets of the process's file descriptors.
    pub(crate) fn holds(self) -> Outcome<Vec<String>> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.0))?.flatten();
        let mut held: Vec<String> = entries
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .map(|target| target.display().to_string())
            .collect();
        held.sort();
        Ok(held)
    }

    /// The number that the process's next file descriptor gets.
    pub(crate) fn first_free_descriptor(self) -> Outcome<usize> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.0))?.flatten();
        let taken: BTreeSet<usize> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        Ok((0..).zip(&taken).find(|(number, held)| number != *held).map_or(taken.len(), |it| it.0))
    }

    /// Prevents the process from opening file descriptors with this number or a higher one.
    pub(crate) async fn may_open(self, below: usize) -> Outcome {
        let (pid, limit) = (format!("--pid={}", self.0), format!("--nofile={below}:"));
        let set = Command::new("prlimit").args([pid, limit]).status().await?;
        ensure!(set.success(), "prlimit: {set}");
        Ok(())
    }

    /// The resident memory of the process in KiB.
    pub(crate) fn resident(self) -> Outcome<u64> {
        self.status("VmRSS:")
    }

    /// The number of threads of the process.
    #[allow(dead_code, reason = "measurements ask for it, stories do not")]
    pub(crate) fn threads(self) -> Outcome<u64> {
        self.status("Threads:")
    }

    /// The number of the process's inotify watches.
    #[allow(dead_code, reason = "measurements ask for it, stories do not")]
    pub(crate) fn watches(self) -> Outcome<usize> {
        let entries = fs::read_dir(format!("/proc/{}/fdinfo", self.0))?.flatten();
        // The process may close a descriptor after the directory was read.
        let infos = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
        let watches =
            |info: String| info.lines().filter(|line| line.starts_with("inotify ")).count();
        Ok(infos.map(watches).sum())
    }

    /// Whether the process has a pidfd of a process whose command line contains `words`.
    #[allow(dead_code, reason = "stories ask for it, measurements do not")]
    pub(crate) fn watches_process(self, words: &str) -> Outcome<bool> {
        let entries = fs::read_dir(format!("/proc/{}/fdinfo", self.0))?.flatten();
        let mut infos = entries.filter_map(|entry| fs::read_to_string(entry.path()).ok());
        let is_of_words = |info: String| {
            let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"));
            let line = fs::read_to_string(format!("/proc/{}/cmdline", pid.unwrap_or("-").trim()));
            line.is_ok_and(|line| line.replace('\0', " ").contains(words))
        };
        Ok(infos.any(is_of_words))
    }

    /// Whether the process has a handler for the signal. Without a handler, a signal such as SIGTERM does not end the
    /// first process of a PID namespace.
    #[allow(dead_code, reason = "measurements ask for it, stories do not")]
    pub(crate) fn catches(self, signal: Signal) -> Outcome<bool> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0))?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught.unwrap_or_default().trim(), 16)?;
        Ok(caught & (1 << (signal as i32 - 1)) != 0)
    }

    /// A number in the process's `/proc/<pid>/status`.
    fn status(self, name: &str) -> Outcome<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
            .ok_or_else(|| Failure(format!("process {} has no {name}", self.0)))
    }

    /// Counts the process's open file descriptors repeatedly for two seconds (longer on slow machines), and returns the
    /// lowest count, so that descriptors of calls that are just ending do not count.
    pub(crate) async fn fewest_descriptors(self) -> Outcome<usize> {
        let mut fewest = self.descriptors()?;
        let mut looks = Looks::within(Duration::from_secs(2), Duration::from_millis(20));
        while looks.again().await {
            fewest = fewest.min(self.descriptors()?);
        }
        Ok(fewest)
    }

    /// Waits until the process has at most this many file descriptors. dockbridge keeps idle connections to the engine
    /// for up to a minute, so this function fails only after 90 s (longer on slow machines).
    pub(crate) async fn lets_go(self, most: usize) -> Outcome {
        let deadline = Instant::now() + patient(Duration::from_secs(90));
        while self.descriptors()? > most {
            if Instant::now() > deadline {
                let held = self.holds()?;
                fail!("{} descriptors, expected {most}:\n  {}", held.len(), held.join("\n  "));
            }
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}
