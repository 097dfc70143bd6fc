//! The messages in CRIU's images that dockbridge-runtime reads or changes; CRIU's `images/*.proto` define the
//! numbers. [`super::image::merged`] keeps all fields that are not listed here.

use prost::Message;

/// The content of `inventory.img`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Inventory {
    #[prost(uint32, optional, tag = "1")]
    pub(super) version: Option<u32>,
    /// CRIU's own namespaces. A process with the same number for a namespace was in the node's namespace.
    #[prost(message, optional, tag = "3")]
    pub(super) host: Option<Namespaces>,
    #[prost(uint32, optional, tag = "5")]
    pub(super) cgroups: Option<u32>,
}

/// `ids-PID.img`: numbers that stand for the namespaces of a process.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Namespaces {
    #[prost(uint32, optional, tag = "5")]
    pub(super) pid: Option<u32>,
    #[prost(uint32, optional, tag = "6")]
    pub(super) network: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    pub(super) ipc: Option<u32>,
    #[prost(uint32, optional, tag = "8")]
    pub(super) uts: Option<u32>,
    #[prost(uint32, optional, tag = "9")]
    pub(super) mount: Option<u32>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) user: Option<u32>,
}

/// `pstree.img` has an entry for each process.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TreeEntry {
    #[prost(uint32, required, tag = "1")]
    pub(super) pid: u32,
    #[prost(uint32, repeated, packed = "false", tag = "5")]
    pub(super) threads: Vec<u32>,
}

/// `core-N.img` has the state of the thread with the id N.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Core {
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(super) task: Option<Vec<u8>>,
    /// `None` for a process that has ended.
    #[prost(bytes = "vec", optional, tag = "5")]
    pub(super) thread: Option<Vec<u8>>,
}

/// State that all threads of a process share.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Task {
    #[prost(uint32, optional, tag = "1")]
    pub(super) state: Option<u32>,
    #[prost(message, optional, tag = "8")]
    pub(super) limits: Option<Limits>,
    #[prost(uint32, optional, tag = "9")]
    pub(super) cgroups: Option<u32>,
    #[prost(uint32, optional, tag = "11")]
    pub(super) old_seccomp_mode: Option<u32>,
    /// Older field for the first thread's seccomp filter. CRIU prefers this field to the newer field of the thread.
    #[prost(uint32, optional, tag = "12")]
    pub(super) old_seccomp_filter: Option<u32>,
    /// The login user, which the kernel's audit records.
    #[prost(uint32, optional, tag = "13")]
    pub(super) login: Option<u32>,
    #[prost(int32, optional, tag = "14")]
    pub(super) oom_score: Option<i32>,
}

/// The resource limits of a process, in the order of the kernel's numbers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Limits {
    #[prost(message, repeated, tag = "1")]
    pub(super) all: Vec<Limit>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Limit {
    #[prost(uint64, required, tag = "1")]
    pub(super) soft: u64,
    #[prost(uint64, required, tag = "2")]
    pub(super) hard: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Thread {
    #[prost(sint32, optional, tag = "3")]
    pub(super) nice: Option<i32>,
    #[prost(uint32, optional, tag = "4")]
    pub(super) policy: Option<u32>,
    #[prost(message, optional, tag = "10")]
    pub(super) credentials: Option<Credentials>,
    #[prost(uint32, optional, tag = "11")]
    pub(super) seccomp_mode: Option<u32>,
    #[prost(uint32, optional, tag = "12")]
    pub(super) seccomp_filter: Option<u32>,
    #[prost(uint32, optional, tag = "16")]
    pub(super) cgroups: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Credentials {
    #[prost(uint32, required, tag = "1")]
    pub(super) uid: u32,
    #[prost(uint32, required, tag = "2")]
    pub(super) gid: u32,
    #[prost(uint32, required, tag = "3")]
    pub(super) effective_uid: u32,
    #[prost(uint32, required, tag = "4")]
    pub(super) effective_gid: u32,
    #[prost(uint32, required, tag = "5")]
    pub(super) saved_uid: u32,
    #[prost(uint32, required, tag = "6")]
    pub(super) saved_gid: u32,
    #[prost(uint32, required, tag = "7")]
    pub(super) file_uid: u32,
    #[prost(uint32, required, tag = "8")]
    pub(super) file_gid: u32,
    /// The inheritable capabilities. Each set of capabilities here is a list of words of 32 bits.
    #[prost(uint32, repeated, packed = "false", tag = "9")]
    pub(super) inheritable: Vec<u32>,
    #[prost(uint32, repeated, packed = "false", tag = "10")]
    pub(super) permitted: Vec<u32>,
    #[prost(uint32, repeated, packed = "false", tag = "11")]
    pub(super) effective: Vec<u32>,
    #[prost(uint32, repeated, packed = "false", tag = "12")]
    pub(super) bounding: Vec<u32>,
    #[prost(uint32, required, tag = "13")]
    pub(super) secure_bits: u32,
    #[prost(uint32, repeated, packed = "false", tag = "14")]
    pub(super) groups: Vec<u32>,
    /// The AppArmor profile or SELinux label of the thread.
    #[prost(string, optional, tag = "15")]
    pub(super) label: Option<String>,
    /// Profiles in AppArmor namespaces of the container. CRIU would load these profiles into the kernel.
    #[prost(bytes = "vec", optional, tag = "17")]
    pub(super) apparmor_namespaces: Option<Vec<u8>>,
    #[prost(uint32, optional, tag = "18")]
    pub(super) no_new_privileges: Option<u32>,
    #[prost(uint32, repeated, packed = "false", tag = "19")]
    pub(super) ambient: Vec<u32>,
}

/// The content of `seccomp.img`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Seccomp {
    #[prost(message, repeated, tag = "1")]
    pub(super) filters: Vec<Filter>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Filter {
    #[prost(bytes = "vec", required, tag = "1")]
    pub(super) program: Vec<u8>,
    /// Index of the seccomp filter that was installed before this filter.
    #[prost(uint32, optional, tag = "2")]
    pub(super) previous: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub(super) flags: Option<u32>,
}

/// `files.img` has an entry for each open file.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OpenFile {
    #[prost(uint32, required, tag = "1")]
    pub(super) kind: u32,
    #[prost(uint32, required, tag = "2")]
    pub(super) id: u32,
    #[prost(message, optional, tag = "3")]
    pub(super) regular: Option<RegularFile>,
    #[prost(message, optional, tag = "4")]
    pub(super) internet_socket: Option<InternetSocket>,
    #[prost(message, optional, tag = "6")]
    pub(super) packet_socket: Option<PacketSocket>,
    #[prost(message, optional, tag = "7")]
    pub(super) netlink_socket: Option<NetlinkSocket>,
    #[prost(message, optional, tag = "13")]
    pub(super) watches: Option<Watches>,
    #[prost(message, optional, tag = "16")]
    pub(super) unix_socket: Option<UnixSocket>,
    #[prost(message, optional, tag = "19")]
    pub(super) terminal: Option<Terminal>,
}

/// The process that gets signals about an open file of any type, and the user who requested these signals.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Owner {
    #[prost(uint32, required, tag = "1")]
    pub(super) uid: u32,
    #[prost(uint32, required, tag = "2")]
    pub(super) effective_uid: u32,
    #[prost(uint32, required, tag = "5")]
    pub(super) pid: u32,
}

/// An open file that CRIU opens by its path.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RegularFile {
    #[prost(uint32, required, tag = "1")]
    pub(super) id: u32,
    #[prost(uint32, required, tag = "2")]
    pub(super) flags: u32,
    #[prost(string, required, tag = "6")]
    pub(super) path: String,
    #[prost(sint32, optional, tag = "7")]
    pub(super) mount: Option<i32>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct InternetSocket {
    #[prost(uint32, required, tag = "4")]
    pub(super) kind: u32,
    #[prost(uint32, required, tag = "7")]
    pub(super) port: u32,
    #[prost(message, optional, tag = "14")]
    pub(super) options: Option<SocketOptions>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct PacketSocket {
    #[prost(message, optional, tag = "7")]
    pub(super) options: Option<SocketOptions>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NetlinkSocket {
    #[prost(uint32, required, tag = "3")]
    pub(super) protocol: u32,
    #[prost(uint32, repeated, packed = "false", tag = "8")]
    pub(super) groups: Vec<u32>,
    #[prost(message, optional, tag = "12")]
    pub(super) options: Option<SocketOptions>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct SocketOptions {
    #[prost(uint32, optional, tag = "8")]
    pub(super) priority: Option<u32>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) mark: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct UnixSocket {
    #[prost(message, optional, tag = "10")]
    pub(super) options: Option<SocketOptions>,
    /// The name of the socket: a path, or an abstract name after a NUL.
    #[prost(bytes = "vec", required, tag = "11")]
    pub(super) name: Vec<u8>,
    /// If the name is a relative path, the directory at which the path starts.
    #[prost(string, optional, tag = "14")]
    pub(super) directory: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Terminal {
    #[prost(uint32, required, tag = "1")]
    pub(super) id: u32,
    #[prost(uint32, required, tag = "3")]
    pub(super) flags: u32,
    /// Number of the terminal's open file, if it differs from the terminal's number.
    #[prost(uint32, optional, tag = "6")]
    pub(super) file: Option<u32>,
}

/// An inotify file.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Watches {
    #[prost(message, repeated, tag = "5")]
    pub(super) all: Vec<Watch>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Watch {
    #[prost(message, optional, tag = "7")]
    pub(super) handle: Option<FileHandle>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FileHandle {
    #[prost(string, optional, tag = "4")]
    pub(super) path: Option<String>,
}

/// `remap-fpath.img`: how CRIU recreates an open file that was deleted.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Remade {
    #[prost(uint32, required, tag = "1")]
    pub(super) file: u32,
    /// Number of a ghost file with the content, or of another open file that is the same file.
    #[prost(uint32, required, tag = "2")]
    pub(super) from: u32,
    #[prost(uint32, optional, tag = "3")]
    pub(super) kind: Option<u32>,
}

/// The first entry of `ghost-file-N.img`, before the content of the deleted file.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct GhostFile {
    #[prost(uint32, required, tag = "3")]
    pub(super) mode: u32,
}

/// `mm-PID.img`: the memory of a process.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Memory {
    #[prost(message, repeated, tag = "14")]
    pub(super) areas: Vec<Area>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Area {
    #[prost(uint64, required, tag = "1")]
    pub(super) start: u64,
    #[prost(uint32, optional, tag = "10")]
    pub(super) flags: Option<u32>,
}

/// `mountpoints-N.img` has an entry for each mount.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Mount {
    #[prost(uint32, required, tag = "1")]
    pub(super) kind: u32,
    #[prost(uint32, required, tag = "2")]
    pub(super) id: u32,
    #[prost(uint32, required, tag = "3")]
    pub(super) device: u32,
    #[prost(uint32, required, tag = "4")]
    pub(super) parent: u32,
    #[prost(uint32, required, tag = "5")]
    pub(super) flags: u32,
    /// The mounted directory or file, as a path in its file system.
    #[prost(string, required, tag = "6")]
    pub(super) root: String,
    #[prost(string, required, tag = "7")]
    pub(super) path: String,
    #[prost(string, optional, tag = "9")]
    pub(super) options: Option<String>,
    #[prost(uint32, optional, tag = "10")]
    pub(super) shared: Option<u32>,
    /// Number of the peer group from which the mount receives mounts and unmounts.
    #[prost(uint32, optional, tag = "11")]
    pub(super) master: Option<u32>,
    #[prost(bool, optional, tag = "12")]
    pub(super) by_plugin: Option<bool>,
    /// Older field that marks an external mount.
    #[prost(bool, optional, tag = "13")]
    pub(super) is_outside: Option<bool>,
    /// Whether the mounted directory was deleted. CRIU would create the directory and remove it again.
    #[prost(bool, optional, tag = "16")]
    pub(super) is_deleted: Option<bool>,
    #[prost(uint32, optional, tag = "17")]
    pub(super) file_system_flags: Option<u32>,
    /// The lower runtime's key for an external mount. The source of an external mount is outside of the container.
    #[prost(string, optional, tag = "18")]
    pub(super) outside: Option<String>,
}

/// Source and options with which CRIU mounts the file system of a [`Mount`].
#[derive(Clone, PartialEq, Message)]
pub(super) struct FileSystem {
    #[prost(string, required, tag = "8")]
    pub(super) source: String,
    #[prost(string, required, tag = "9")]
    pub(super) options: String,
}

/// The content of `netns-N.img`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Network {
    /// The lower runtime's name for the network namespace of the pod.
    #[prost(string, optional, tag = "8")]
    pub(super) outside: Option<String>,
}

/// The content of `utsns-N.img`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct HostNames {
    #[prost(string, required, tag = "1")]
    pub(super) host: String,
}

/// The content of `cgroup.img`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Cgroups {
    #[prost(message, repeated, tag = "1")]
    pub(super) sets: Vec<CgroupSet>,
    #[prost(message, repeated, tag = "2")]
    pub(super) controllers: Vec<Controller>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CgroupSet {
    #[prost(uint32, required, tag = "1")]
    pub(super) id: u32,
    #[prost(message, repeated, tag = "2")]
    pub(super) members: Vec<CgroupMember>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CgroupMember {
    #[prost(string, required, tag = "1")]
    pub(super) controller: String,
    #[prost(string, required, tag = "2")]
    pub(super) path: String,
    /// Length of the first part of `path`. The cgroup namespace hides this part.
    #[prost(uint32, optional, tag = "3")]
    pub(super) hidden: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Controller {
    #[prost(string, repeated, tag = "1")]
    pub(super) names: Vec<String>,
    #[prost(message, repeated, tag = "2")]
    pub(super) directories: Vec<CgroupDirectory>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CgroupDirectory {
    #[prost(string, required, tag = "1")]
    pub(super) name: String,
}
