//! The umask of this process, which the programs that it runs inherit.

use nix::sys::stat::{Mode, umask};

/// Changes a umask of 0 to the usual 022, and keeps any other.
pub fn restrict() {
    let inherited = umask(Mode::S_IWGRP | Mode::S_IWOTH);
    if !inherited.is_empty() {
        umask(inherited);
    }
}
