//! Whether the kernel's SELinux policy knows a security context.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::Path,
};

use super::file::if_there;

/// Whether the loaded policy accepts a context such as `system_u:system_r:container_t:s0:c1,c2`. None if
/// SELinux is off.
pub fn is_valid(context: &str) -> io::Result<Option<bool>> {
    check(Path::new(CONTEXT), context)
}

/// Writes the context to `file`. The write fails with `InvalidInput` if the policy refuses the context.
fn check(file: &Path, context: &str) -> io::Result<Option<bool>> {
    let opened = if_there(OpenOptions::new().write(true).open(file))?;
    let Some(mut file) = opened else { return Ok(None) };
    let question = [context.as_bytes(), &[0]].concat();
    match file.write_all(&question) {
        Ok(()) => Ok(Some(true)),
        Err(no) if no.kind() == io::ErrorKind::InvalidInput => Ok(Some(false)),
        Err(other) => Err(other),
    }
}

const CONTEXT: &str = "/sys/fs/selinux/context";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_written_to_the_kernel_with_a_nul() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("context");
        assert_eq!(check(&file, "a").unwrap(), None);
        std::fs::write(&file, "").unwrap();
        assert_eq!(check(&file, "u:r:t:s0").unwrap(), Some(true));
        assert_eq!(std::fs::read(&file).unwrap(), b"u:r:t:s0\0");
    }
}
