//! The disk usage of a directory tree with a project quota: the file system counts it, so no walk is
//! needed.

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat},
    libc,
    sys::stat::Mode,
};

use super::tree::Size;

/// The usage of the layer that `directory` is part of, if its parent directory is a project. The
/// figure is of the whole project, because Docker sets it there: the overlay's work directory is
/// included.
///
/// None if there is no such project, if it is the whole storage, if quotas are off, before Linux
/// 5.14, and without `CAP_SYS_ADMIN`.
pub fn used(directory: &Path) -> Option<Size> {
    let directory = open(directory, FLAGS, Mode::empty()).ok()?;
    let layer = openat(&directory, "..", FLAGS, Mode::empty()).ok()?;
    let around = openat(&layer, "..", FLAGS, Mode::empty()).ok()?;
    let project = own_project(
        inherited_project(&directory)?,
        inherited_project(&layer)?,
        inherited_project(&around),
    )?;
    project_usage(layer.as_fd(), project).ok()
}

/// The project of two directories that their parent is not in.
fn own_project(directory: u32, layer: u32, around: Option<u32>) -> Option<u32> {
    (directory == layer && around != Some(layer)).then_some(layer)
}

/// The project that new entries of a directory inherit; 0 is none.
fn inherited_project(directory: &OwnedFd) -> Option<u32> {
    let facts = attributes(directory.as_fd()).ok()?;
    (facts.flags & INHERITED != 0 && facts.project != 0).then_some(facts.project)
}

fn size(counts: &libc::dqblk) -> Option<Size> {
    let whole = counts.dqb_valid & libc::QIF_USAGE == libc::QIF_USAGE;
    whole.then_some(Size { bytes: counts.dqb_curspace, inodes: counts.dqb_curinodes })
}

#[allow(unsafe_code, reason = "no safe wrapper of this system call")]
fn attributes(directory: BorrowedFd<'_>) -> nix::Result<Attributes> {
    let mut facts = Attributes::default();
    // SAFETY: the descriptor is open for the length of the call, and the kernel fills a record
    // of the length that the request's number names.
    unsafe { ioctl::attributes(directory.as_raw_fd(), &raw mut facts) }?;
    Ok(facts)
}

/// The usage of a project, on the file system of an open directory.
#[allow(unsafe_code, reason = "no safe wrapper of this system call")]
fn project_usage(on: BorrowedFd<'_>, project: u32) -> io::Result<Size> {
    let mut counts = MaybeUninit::<libc::dqblk>::zeroed();
    // SAFETY: the descriptor is open for the length of the call, and the kernel writes no more
    // than the record this command is documented to fill.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_quotactl_fd,
            on.as_raw_fd(),
            libc::QCMD(libc::Q_GETQUOTA, OF_PROJECTS),
            project,
            counts.as_mut_ptr(),
        )
    };
    Errno::result(answer)?;
    // SAFETY: numbers only, and zero before anybody wrote them.
    size(&unsafe { counts.assume_init() }).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// `struct fsxattr` of `linux/fs.h`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Attributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    copied_extent_size: u32,
    padding: [u8; 8],
}

mod ioctl {
    //! The raw call.
    #![allow(unsafe_code, reason = "generated wrapper of an ioctl")]
    #![allow(missing_docs, reason = "generated")]

    // FS_IOC_FSGETXATTR.
    nix::ioctl_read!(attributes, b'X', 31, super::Attributes);
}

/// How directories are opened: only such, and not through a link.
const FLAGS: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// `FS_XFLAG_PROJINHERIT`.
const INHERITED: u32 = 0x200;
/// `PRJQUOTA`.
const OF_PROJECTS: libc::c_int = 2;

#[cfg(test)]
mod tests;
