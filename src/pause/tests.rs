//! Tests of the pause program: its ELF file, its image in both formats, and the running program.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    archive,
    elf::{self, Machine},
    ustar,
};
use crate::skips::{Lack, skip};

#[test]
fn program_is_a_minimal_static_executable() {
    for machine in machines() {
        let number = if machine.architecture == "arm64" { 183 } else { 62 };
        let file = elf::program(machine);
        assert_eq!(file[..8], [0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
        let (kind, entry, headers) = (half(&file, 16), long(&file, 24), long(&file, 32));
        assert_eq!((kind, half(&file, 18), headers), (2, number, 64));
        assert_eq!([half(&file, 52), half(&file, 54), half(&file, 56)], [64, 56, 2]);
        let [load, stack] = [64, 120].map(|at| &file[at..at + 56]);
        assert_eq!((word(load, 0), word(load, 4)), (1, 5), "PT_LOAD, read and execute");
        let (offset, address) = (long(load, 8), long(load, 16));
        assert_eq!((offset, address % long(load, 48)), (0, 0), "offset ≡ address (mod align)");
        assert_eq!([long(load, 32), long(load, 40)], [file.len() as u64; 2]);
        assert_eq!((word(stack, 0), word(stack, 4)), (0x6474_e551, 6), "PT_GNU_STACK, no execute");
        assert_eq!(entry - address, 176, "starts at the code");
        assert!(file[176..] == *machine.code && machine.code.len() < 256);
    }
}

#[test]
fn archive_describes_the_same_blobs_to_both_image_stores() {
    for machine in machines() {
        let files = read_tar(&archive::archive_for(machine));
        let docker = json(&files["manifest.json"]);
        assert_eq!(docker[0]["RepoTags"], serde_json::json!([archive::reference()]));
        let config_path = docker[0]["Config"].as_str().unwrap();
        let layer_path = docker[0]["Layers"][0].as_str().unwrap();

        let config = json(&files[config_path]);
        assert_eq!(config["architecture"], machine.architecture);
        assert_eq!(config["os"], "linux");
        assert_eq!(config["config"]["Entrypoint"], serde_json::json!(["/pause"]));
        assert_eq!(config["rootfs"]["diff_ids"][0], digest(&files[layer_path]));
        let layer = read_tar(&files[layer_path]);
        assert_eq!(layer, BTreeMap::from([("pause".to_owned(), elf::program(machine))]));

        assert_eq!(json(&files["oci-layout"])["imageLayoutVersion"], "1.0.0");
        let entry = &json(&files["index.json"])["manifests"][0];
        assert_eq!(entry["platform"]["architecture"], machine.architecture);
        let name = &entry["annotations"]["io.containerd.image.name"];
        assert_eq!(name.as_str(), Some(format!("docker.io/{}", archive::reference()).as_str()));
        let manifest = json(described(&files, entry));
        assert_eq!(described(&files, &manifest["config"]), &files[config_path]);
        assert_eq!(described(&files, &manifest["layers"][0]), &files[layer_path]);
    }
}

/// Under one name, the built-in pause image has the same bytes on all nodes of one architecture. If you change the
/// image's bytes, you must also change the tag in `archive::reference`, and then the digests in this test.
#[test]
fn archive_never_changes_under_one_name() {
    assert_eq!(archive::reference(), "dockbridge/pause:2");
    for machine in machines() {
        let digest = digest(&archive::archive_for(machine));
        assert!(DIGESTS.contains(&(machine.architecture, &*digest)), "{machine:x?} {digest}");
    }
    assert_eq!(archive::archive(), archive::archive_for(Machine::host()));
}

/// dockbridge recognises the built-in pause image by its id, because a user can give another image the same name.
#[test]
fn image_is_known_by_its_id() {
    let files = read_tar(&archive::archive());
    let config = json(&files["manifest.json"])[0]["Config"].as_str().unwrap().to_owned();
    let config = config.replace("blobs/", "").replace('/', ":");
    let manifest = json(&files["index.json"])["manifests"][0]["digest"].clone();
    for id in [&config, manifest.as_str().unwrap()] {
        assert!(archive::is_of(id), "{id}");
    }
    for id in ["", archive::reference(), &digest(b"another")] {
        assert!(!archive::is_of(id), "{id}");
    }
}

#[test]
fn tar_is_what_tar_reads() {
    let home = tempfile::tempdir().unwrap();
    let content = vec![b'x'; 513];
    let tar = ustar::archive([("a", 0o755, &b""[..]), ("b/c", 0o600, &content)]);
    fs::write(home.path().join("x.tar"), &tar).unwrap();
    let run = Command::new("tar").args(["-xpf", "x.tar"]).current_dir(home.path()).status();
    let Ok(status) = run else {
        return skip(Lack::Program("tar"));
    };
    assert!(status.success());
    assert_eq!(fs::read(home.path().join("a")).unwrap(), b"");
    assert_eq!(fs::read(home.path().join("b/c")).unwrap(), content);
    assert_eq!(tar.len() % 10240, 0);
}

/// Evaluates the pause program's seccomp filter for the system call numbers of both architectures.
#[test]
fn filter_allows_the_three_calls_the_program_makes_from_then_on() {
    for machine in machines() {
        let (here, elsewhere, calls) = match machine.architecture {
            "arm64" => (AUDIT_ARCH_AARCH64, AUDIT_ARCH_X86_64, [94, 137, 260]),
            _ => (AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64, [61, 128, 231]),
        };
        let code = machine.code;
        // The filter is at the end of the program, and starts with the only instruction that loads the architecture.
        let begin = code.windows(8).position(|step| step == LOAD_ARCHITECTURE).unwrap();
        let filter = &code[begin..];
        let numbers = (0..1024).chain(X32..X32 + 1024);
        let allowed = |arch| numbers.clone().filter(move |call| is_allowed(filter, arch, *call));
        assert_eq!(allowed(here).collect::<Vec<_>>(), calls);
        assert_eq!(allowed(elsewhere).count(), 0);
    }
}

/// Evaluates the seccomp filter as the kernel does.
fn is_allowed(filter: &[u8], arch: u32, call: u32) -> bool {
    let (mut at, mut loaded) = (0, 0);
    loop {
        let step = &filter[at * 8..at * 8 + 8];
        let value = word(step, 4);
        let steps = match (half(step, 0), value) {
            (0x20, 0) => {
                loaded = call;
                0
            }
            (0x20, 4) => {
                loaded = arch;
                0
            }
            (0x15, value) => {
                if loaded == value {
                    step[2]
                } else {
                    step[3]
                }
            }
            (0x06, 0x7fff_0000) => return true,
            (0x06, 0x0005_0001) => return false,
            other => panic!("{other:x?} is not part of such a filter"),
        };
        at += 1 + usize::from(steps);
    }
}

#[test]
fn pause_confines_itself() {
    for pause in installed().into_iter().filter(|pause| pause.runner.is_none()) {
        let mut child = pause.command().spawn().unwrap();
        pause.await_start(&child);
        kill(pid(&child), Signal::SIGTERM).unwrap();
        assert_eq!(exit_code(&mut child), Some(0), "{}", pause.name);
    }
}

/// The number of seccomp filters of a process, which Linux reports from 5.9 on.
fn filters(process: &str) -> u32 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
    line.expect("a kernel that counts filters").trim().parse().unwrap()
}

#[test]
fn pause_ends_at_once_when_asked() {
    for pause in installed() {
        for signal in [Signal::SIGTERM, Signal::SIGINT] {
            let mut child = pause.command().spawn().unwrap();
            pause.await_start(&child);
            assert!(child.try_wait().unwrap().is_none(), "{} holds", pause.name);
            kill(pid(&child), signal).unwrap();
            assert_eq!(exit_code(&mut child), Some(0), "{} at {signal}", pause.name);
        }
    }
}

#[test]
fn pause_reaps_and_survives_stop_and_continue() {
    for pause in installed() {
        // The shell starts children and then becomes the pause program (`exec`), so the children are children of pause.
        let script = "for i in 1 2 3 4 5 6 7 8; do sleep 0.$i & done; exec \"$@\"";
        let command = pause.command();
        let mut child = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(command.get_program())
            .args(command.get_args())
            .spawn()
            .unwrap();
        pause.await_start(&child);
        kill(pid(&child), Signal::SIGSTOP).unwrap();
        thread::sleep(Duration::from_millis(50));
        kill(pid(&child), Signal::SIGCONT).unwrap();
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let left = || fs::read_to_string(&children).unwrap();
        assert!(within(SOON, || left().is_empty()), "{}: {}", pause.name, left());
        assert!(child.try_wait().unwrap().is_none(), "{} holds", pause.name);
        kill(pid(&child), Signal::SIGTERM).unwrap();
        assert_eq!(exit_code(&mut child), Some(0), "{}", pause.name);
    }
}

/// A pause program that can run on this machine.
struct Installed {
    name: &'static str,
    runner: Option<&'static str>,
    program: PathBuf,
    _home: tempfile::TempDir,
}

impl Installed {
    /// Waits until the pause process has blocked its signals, which it does before it installs its seccomp filter.
    fn await_start(&self, child: &Child) {
        if self.runner.is_some() {
            // Under the emulator the process has no seccomp filter for which this test could wait.
            return thread::sleep(Duration::from_millis(800));
        }
        // If the test runs in a container with seccomp filters, the pause process inherits these filters.
        let (own, others) = (child.id().to_string(), filters("self"));
        assert!(within(SOON, || filters(&own) == others + 1), "{}", self.name);
    }

    fn command(&self) -> Command {
        let Some(runner) = self.runner else {
            return Command::new(&self.program);
        };
        let mut command = Command::new(runner);
        command.arg(&self.program);
        command
    }
}

/// The pause program of this machine's architecture, and that of the other architecture if `rustc` and an emulator
/// are installed.
fn installed() -> Vec<Installed> {
    let mut found = Vec::new();
    for machine in machines() {
        let native = machine.architecture == Machine::host().architecture;
        let emulator = match machine.architecture {
            "arm64" => "qemu-aarch64-static",
            _ => "qemu-x86_64-static",
        };
        if !native && Command::new(emulator).arg("-version").output().is_err() {
            skip(Lack::Program(emulator));
            continue;
        }
        let home = tempfile::tempdir().unwrap();
        found.push(Installed {
            name: machine.architecture,
            runner: (!native).then_some(emulator),
            program: install(home.path(), machine),
            _home: home,
        });
    }
    found
}

/// Writes the program in another process (`install`). If the test process itself had the file open for writing, a child
/// that another thread forks at that moment would keep it open, and the kernel refuses to execute such a file.
fn install(home: &Path, machine: Machine) -> PathBuf {
    let (bytes, program) = (home.join("bytes"), home.join("pause"));
    fs::write(&bytes, elf::program(machine)).unwrap();
    let status = Command::new("install").arg("-m755").args([&bytes, &program]).status().unwrap();
    assert!(status.success());
    program
}

/// The host's architecture, and the other one if `rustc` is installed, which assembles the pause program of the other
/// architecture. This needs unstable features of `rustc`, which `RUSTC_BOOTSTRAP` enables, but no standard library.
fn machines() -> Vec<Machine> {
    let host = Machine::host();
    let (architecture, number, target, source, options) = match host.architecture {
        "arm64" => ("amd64", 62, "x86_64-unknown-linux-gnu", "x86_64.S", "att_syntax, raw"),
        _ => ("arm64", 183, "aarch64-unknown-linux-gnu", "aarch64.S", "raw"),
    };
    let home = tempfile::tempdir().unwrap();
    let (text, object) = (home.path().join("pause.rs"), home.path().join("pause.o"));
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src/host/pause_program");
    fs::write(
        &text,
        format!(
            "#![feature(no_core, rustc_attrs)] #![no_core] #![allow(internal_features)]
            #[rustc_builtin_macro] macro_rules! global_asm {{ () => {{}} }}
            #[rustc_builtin_macro] macro_rules! include_str {{ () => {{}} }}
            global_asm!(include_str!(\"{sources}/{source}\"), include_str!(\"{sources}/filter.S\"),
                options({options}));"
        ),
    )
    .unwrap();
    let mut compiler = Command::new("rustc");
    compiler.args(["--crate-type=lib", "--emit=obj", "--target", target, "-o"]).arg(&object);
    let Ok(compiled) = compiler.arg(text).env("RUSTC_BOOTSTRAP", "1").output() else {
        skip(Lack::Program("rustc"));
        return vec![host];
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let code = read_only_data(&fs::read(object).unwrap()).leak();
    vec![host, Machine { architecture, number, code }]
}

/// Content of the only section of an object file that is read-only and not executable.
fn read_only_data(object: &[u8]) -> Vec<u8> {
    let place = |bytes, at| usize::try_from(long(bytes, at)).unwrap();
    let headers = object[place(object, 40)..].chunks_exact(64);
    let found = headers.filter(|header| (word(header, 4), long(header, 8)) == (1, 2));
    let [section] = found.collect::<Vec<_>>()[..] else { panic!("one section of data") };
    object[place(section, 24)..][..place(section, 32)].to_vec()
}

/// The files of a ustar archive. Fails if an entry is not a regular file, or the checksum of a header is wrong.
fn read_tar(tar: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut at = 0;
    while tar[at] != 0 {
        let header = &tar[at..at + 512];
        let octal = |from: usize, to: usize| {
            let digits = std::str::from_utf8(&header[from..to]).unwrap();
            usize::from_str_radix(digits.trim_matches(['\0', ' ']), 8).unwrap()
        };
        let sum: usize = header.iter().map(|&byte| usize::from(byte)).sum();
        let own: usize = header[148..156].iter().map(|&byte| usize::from(byte)).sum();
        assert_eq!(octal(148, 156), sum - own + 8 * usize::from(b' '));
        assert_eq!((header[156], &header[257..265]), (b'0', &b"ustar\x0000"[..]));
        let name = std::str::from_utf8(&header[..100]).unwrap().trim_end_matches('\0');
        let size = octal(124, 136);
        files.insert(name.to_owned(), tar[at + 512..at + 512 + size].to_vec());
        at += 512 + size.next_multiple_of(512);
    }
    assert!(tar[at..].iter().all(|&byte| byte == 0) && tar.len() - at >= 1024);
    files
}

/// The blob that a descriptor names. Fails if the blob's digest or size is wrong.
fn described<'a>(files: &'a BTreeMap<String, Vec<u8>>, descriptor: &Value) -> &'a Vec<u8> {
    let named = descriptor["digest"].as_str().unwrap();
    let blob = &files[&format!("blobs/{}", named.replace(':', "/"))];
    assert_eq!((named, descriptor["size"].as_u64()), (&*digest(blob), Some(blob.len() as u64)));
    blob
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// The exit code of a process that should end soon. Kills the process if it does not end within [`SOON`].
fn exit_code(child: &mut Child) -> Option<i32> {
    if !within(SOON, || child.try_wait().unwrap().is_some()) {
        child.kill().unwrap();
    }
    child.wait().unwrap().code()
}

/// Time limit of each wait in these tests, which is much longer than a busy machine needs.
const SOON: Duration = Duration::from_secs(300);

fn within(time_limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + time_limit;
    while !done() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}

const DIGESTS: [(&str, &str); 2] = [
    ("amd64", "sha256:8d43c48dfc280d5f6eade6690eeaba188f19d0aae6c766fd4633dad3511ad47e"),
    ("arm64", "sha256:63a7f261fd6968da6283141f283e70f6100dae484ad9cf4a172aa3ba9a30677f"),
];
/// The numbers of the architectures in `linux/audit.h`.
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
const AUDIT_ARCH_AARCH64: u32 = 0xc000_00b7;
/// The bit that distinguishes the system calls of x32 programs from those of 64-bit programs.
const X32: u32 = 0x4000_0000;
const LOAD_ARCHITECTURE: [u8; 8] = [0x20, 0, 0, 0, 4, 0, 0, 0];
