//! The machine code of the pause program for this processor, which dockbridge has as data and does not itself run.

#![allow(unsafe_code, reason = "dockbridge reads the assembled program between its labels")]

use std::{arch::global_asm, slice};

#[cfg(target_arch = "x86_64")]
global_asm!(
    include_str!("pause_program/x86_64.S"),
    include_str!("pause_program/filter.S"),
    options(att_syntax, raw)
);
#[cfg(target_arch = "aarch64")]
global_asm!(
    include_str!("pause_program/aarch64.S"),
    include_str!("pause_program/filter.S"),
    options(raw)
);

// SAFETY: the assembly sources above define both symbols, as labels in read-only data.
unsafe extern "C" {
    safe static dockbridge_pause: u8;
    safe static dockbridge_pause_end: u8;
}

/// The machine code of the pause program, which runs at any address.
pub fn machine_code() -> &'static [u8] {
    let (begin, end) = (&raw const dockbridge_pause, &raw const dockbridge_pause_end);
    // SAFETY: the labels at `begin` and `end` are in the same section, in this order, and nothing writes to
    // that section.
    unsafe { slice::from_raw_parts(begin, end.addr() - begin.addr()) }
}
