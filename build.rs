//! Compiles `proto/api.proto` into the CRI types and services, and `proto/nri.proto` into the messages
//! of NRI, without a system `protoc`.
//!
//! protox is written in Rust. Debian's protoc rejects the option `debug_redact`, which the interface uses.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    cri(&out)?;
    nri(&out)
}

fn cri(out: &Path) -> Result<(), Box<dyn Error>> {
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_file("api.proto")?;
    // The test that compares the interface with its published facts reads this file. The compiler writes it
    // itself, because the structs of the next step do not know `debug_redact`.
    fs::write(out.join("cri.descriptors"), compiler.encode_file_descriptor_set())?;
    let mut files = compiler.file_descriptor_set();
    for message in files.file.iter_mut().flat_map(|file| &mut file.message_type) {
        if ENCODED.contains(&message.name()) {
            let [items] = &mut *message.field else {
                return Err(format!("{} is not just a list", message.name()).into());
            };
            (items.r#type, items.type_name) = (Some(BYTES), None);
        }
    }
    for field in files
        .file
        .iter_mut()
        .flat_map(|file| &mut file.message_type)
        .filter(|message| message.name() == EVENT)
        .flat_map(|message| &mut message.field)
        .filter(|field| field.r#type == Some(MESSAGE))
    {
        (field.r#type, field.type_name) = (Some(BYTES), None);
    }
    let builder =
        ENCODED.iter().chain([&EVENT]).fold(tonic_prost_build::configure(), |builder, name| {
            builder.bytes(format!(".runtime.v1.{name}"))
        });
    builder
        .generate_default_stubs(true)
        // Sorted, as in records: answers are copies, and equal answers must have equal bytes.
        .btree_map(".")
        // Credentials must not reach a log through `{:?}`.
        .skip_debug(["runtime.v1.AuthConfig"])
        .compile_fds(files)?;
    Ok(())
}

/// Generates only messages: the calls use ttrpc, which is not gRPC.
fn nri(out: &Path) -> Result<(), Box<dyn Error>> {
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_file("nri.proto")?;
    fs::write(out.join("nri.descriptors"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        .btree_map(".")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}

/// Lists that are requested so often that their items are kept encoded between two answers
/// (`rpc::encoded_lists`). On the wire, a message field and a bytes field with the same content are equal.
const ENCODED: [&str; 4] = [
    "ListContainersResponse",
    "ListPodSandboxResponse",
    "StreamContainersResponse",
    "StreamPodSandboxesResponse",
];
/// The event that every listener receives. The messages in it are encoded once for all listeners.
const EVENT: &str = "ContainerEventResponse";
/// `TYPE_MESSAGE` and `TYPE_BYTES` of protobuf's `descriptor.proto`.
const MESSAGE: i32 = 11;
const BYTES: i32 = 12;
