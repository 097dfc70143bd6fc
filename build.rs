//! Compiles `proto/api.proto` into the CRI types and services, without a system `protoc`.
//!
//! protox is pure Rust: Debian's protoc rejects the `debug_redact` option the interface uses.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto/api.proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_file("api.proto")?;
    // The test that compares the interface with its published facts reads this. It is written by
    // the compiler itself because the structs of the next step do not know `debug_redact`.
    fs::write(out.join("cri.descriptors"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
        .generate_default_stubs(true)
        // Sorted, as records keep them: an answer is a copy, and equal ones are the same bytes.
        .btree_map(".")
        // Credentials must not reach a log through `{:?}`.
        .skip_debug(["runtime.v1.AuthConfig"])
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
