//! Compiles `proto/api.proto` into the CRI types and services, without a system `protoc`.
//!
//! protox is pure Rust: Debian's protoc rejects the `debug_redact` option the interface uses.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto/api.proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let descriptors = protox::compile(["api.proto"], ["proto"])?;
    // The test that compares the interface with its published facts reads this.
    fs::write(out.join("cri.descriptors"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .generate_default_stubs(true)
        // Credentials must not reach a log through `{:?}`.
        .skip_debug(["runtime.v1.AuthConfig"])
        .compile_fds(descriptors)?;
    Ok(())
}
