//! The pause program as an ELF file: machine code in one read-only, executable segment.

use crate::host::pause_program;

/// A processor architecture and its pause program.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The name of the architecture in image configurations (Go's name).
    pub architecture: &'static str,
    /// `e_machine` of the ELF header.
    pub(super) number: u16,
    pub(super) code: &'static [u8],
}

impl Machine {
    /// The architecture of this host, and so of the engine, which dockbridge reaches over a local socket.
    pub fn host() -> Self {
        let (architecture, number) =
            if cfg!(target_arch = "aarch64") { ("arm64", 183) } else { ("amd64", 62) };
        Self { architecture, number, code: pause_program::machine_code() }
    }
}

/// The pause program as the content of a static executable file.
pub fn program(machine: Machine) -> Vec<u8> {
    let size = HEADERS + machine.code.len() as u64;
    let mut file = file_header(machine);
    file.extend(segment(PT_LOAD, FLAG_READ | FLAG_EXECUTE, size, PAGE));
    // Without this header, old kernels make the stack executable.
    file.extend(segment(PT_GNU_STACK, FLAG_READ | FLAG_WRITE, 0, 16));
    file.extend_from_slice(machine.code);
    file
}

/// `Elf64_Ehdr`: a static executable whose code starts directly after the headers.
fn file_header(machine: Machine) -> Vec<u8> {
    let mut header = vec![0x7f, b'E', b'L', b'F', CLASS_64, LITTLE_ENDIAN, CURRENT, ABI_SYSTEM_V];
    header.resize(16, 0);
    header.extend(ET_EXEC.to_le_bytes());
    header.extend(machine.number.to_le_bytes());
    header.extend(u32::from(CURRENT).to_le_bytes());
    header.extend((BASE + HEADERS).to_le_bytes());
    header.extend(u64::from(FILE_HEADER).to_le_bytes()); // the program headers follow at once
    header.extend(0_u64.to_le_bytes()); // no section headers
    header.extend(0_u32.to_le_bytes()); // no machine flags
    for half in [FILE_HEADER, PROGRAM_HEADER, PROGRAM_HEADERS, 0, 0, 0] {
        header.extend(half.to_le_bytes());
    }
    header
}

/// `Elf64_Phdr` of a segment with the first `size` bytes of the file; an empty segment if `size` is 0.
fn segment(kind: u32, flags: u32, size: u64, align: u64) -> Vec<u8> {
    let address = if size == 0 { 0 } else { BASE };
    let mut header = Vec::with_capacity(usize::from(PROGRAM_HEADER));
    header.extend(kind.to_le_bytes());
    header.extend(flags.to_le_bytes());
    for word in [0, address, address, size, size, align] {
        header.extend(word.to_le_bytes());
    }
    header
}

const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const CURRENT: u8 = 1;
const ABI_SYSTEM_V: u8 = 0;
const ET_EXEC: u16 = 2;
const PT_LOAD: u32 = 1;
const PT_GNU_STACK: u32 = 0x6474_e551;
const FLAG_EXECUTE: u32 = 1;
const FLAG_WRITE: u32 = 2;
const FLAG_READ: u32 = 4;
const FILE_HEADER: u16 = 64;
const PROGRAM_HEADER: u16 = 56;
const PROGRAM_HEADERS: u16 = 2;
const HEADERS: u64 = FILE_HEADER as u64 + (PROGRAM_HEADER * PROGRAM_HEADERS) as u64;
/// The address at which GNU's linker places static programs: above the usual `mmap_min_addr`.
const BASE: u64 = 0x40_0000;
/// Alignment of the segment: the largest page size of both architectures (64 KiB in some ARM kernels).
const PAGE: u64 = 0x1_0000;
