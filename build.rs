//! Compiles `proto/api.proto` into the CRI types and services, and `proto/nri.proto` into the messages of NRI, with
//! protox instead of a system `protoc`: Debian's rejects the option `debug_redact`, which the CRI uses.

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
    // `tests/interface.rs` reads `cri.descriptors` to compare the interface with the published facts of the
    // CRI. protox's compiler encodes this file, because prost's structs would drop the option `debug_redact`.
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
        // `BTreeMap` sorts the entries of all `map` fields, as in the store's records, because equal answers
        // must have equal bytes.
        .btree_map(".")
        // Credentials must not reach a log through `{:?}`.
        .skip_debug(["runtime.v1.AuthConfig"])
        .compile_fds(files)?;
    Ok(())
}

/// Generates only NRI's messages and no gRPC services, because NRI's calls use ttrpc.
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

/// Responses of frequent calls, whose items dockbridge keeps encoded between two answers
/// (`rpc::encoded_lists`). The field for the items gets the type `bytes`, which is encoded like a message.
const ENCODED: [&str; 4] = [
    "ListContainersResponse",
    "ListPodSandboxResponse",
    "StreamContainersResponse",
    "StreamPodSandboxesResponse",
];
/// The container event that dockbridge sends to every client of `GetContainerEvents`. dockbridge encodes the
/// messages in an event once for all clients.
const EVENT: &str = "ContainerEventResponse";
/// `TYPE_MESSAGE` and `TYPE_BYTES` of protobuf's `descriptor.proto`.
const MESSAGE: i32 = 11;
const BYTES: i32 = 12;
