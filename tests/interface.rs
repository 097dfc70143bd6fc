//! Compares the compiled interfaces with the published facts of CRI v1 and NRI v1alpha1, row by row and in
//! both directions. We wrote `proto/*.proto` ourselves, so only this test proves that they match the published facts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use descriptor::{EnumType, Field, File, FileSet, Message, Method, Service};
use prost::Message as _;

/// An interface: our `.proto` file, its `FileDescriptorSet` from the build script, and the published facts. A
/// row of facts has kind, parent, number, label, type, name and flags, with tabs between them.
struct Interface {
    package: &'static str,
    text: &'static str,
    compiled: &'static [u8],
    facts: &'static str,
}

const INTERFACES: [Interface; 2] = [
    Interface {
        package: "runtime.v1",
        text: include_str!("../proto/api.proto"),
        compiled: include_bytes!(concat!(env!("OUT_DIR"), "/cri.descriptors")),
        facts: include_str!("fixtures/cri/v1-interface.tsv"),
    },
    Interface {
        package: "nri.pkg.api.v1alpha1",
        text: include_str!("../proto/nri.proto"),
        compiled: include_bytes!(concat!(env!("OUT_DIR"), "/nri.descriptors")),
        facts: include_str!("fixtures/nri/v1alpha1-interface.tsv"),
    },
];

#[test]
fn every_fact_is_in_the_interface_and_nothing_else() {
    for Interface { package, compiled, facts: rows, .. } in &INTERFACES {
        let facts: BTreeSet<String> =
            rows.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
        let ours: BTreeSet<String> = rows_of_compiled(package, compiled).into_iter().collect();
        assert_eq!(facts.len(), rows.lines().count() - 2, "a fact stands twice");
        let missing: Vec<&String> = facts.difference(&ours).collect();
        let invented: Vec<&String> = ours.difference(&facts).collect();
        assert!(
            missing.is_empty() && invented.is_empty(),
            "{package} lacks: {missing:#?}\nand invents: {invented:#?}"
        );
    }
}

#[test]
fn every_rpc_and_message_is_explained() {
    for Interface { package, text, .. } in &INTERFACES {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let words = ["service ", "rpc ", "message ", "enum "];
        let bare: Vec<&str> = lines
            .windows(2)
            .filter(|pair| words.iter().any(|word| pair[1].starts_with(word)))
            .filter(|pair| !pair[0].starts_with("//"))
            .map(|pair| pair[1])
            .collect();
        assert!(bare.is_empty(), "{package} without a comment: {bare:#?}");
    }
}

/// The compiled interface as rows in the same form as the facts.
fn rows_of_compiled(package: &str, compiled: &[u8]) -> Vec<String> {
    let set = FileSet::decode(compiled).unwrap();
    let [file] = set.files.as_slice() else { panic!("one file is expected") };
    assert_eq!((file.package.as_str(), file.syntax.as_str()), (package, "proto3"));
    rows_of(file)
}

fn rows_of(file: &File) -> Vec<String> {
    let mut rows = Vec::new();
    for service in &file.services {
        rows.extend(service.methods.iter().map(|method| rpc(service, method)));
    }
    for list in &file.enums {
        rows.extend(values("", list));
    }
    for message in &file.messages {
        rows.extend(message.enums.iter().flat_map(|list| values(&message.name, list)));
        rows.extend(message.fields.iter().map(|field| field_row(message, field)));
        if message.fields.is_empty() {
            rows.push(row(["message", &message.name, "", "", "", "", "empty"]));
        }
        for nested in &message.nested {
            assert!(nested.is_map_entry(), "{}.{} is no map", message.name, nested.name);
        }
    }
    rows
}

fn rpc(service: &Service, method: &Method) -> String {
    assert!(!method.client_streaming, "{}", method.name);
    let label = if method.server_streaming { "stream" } else { "unary" };
    let shape = format!("{} -> {}", short(&method.input), short(&method.output));
    row(["rpc", &service.name, "", label, &shape, &method.name, ""])
}

fn values(parent: &str, list: &EnumType) -> Vec<String> {
    let name =
        if parent.is_empty() { list.name.clone() } else { format!("{parent}.{}", list.name) };
    let rows = list
        .values
        .iter()
        .map(|value| row(["enum", &name, &value.number.to_string(), "", "", &value.name, ""]));
    rows.collect()
}

fn field_row(message: &Message, field: &Field) -> String {
    assert!(field.oneof.is_none(), "{}.{} is in a oneof", message.name, field.name);
    let entry = message.nested.iter().find(|nested| {
        nested.is_map_entry()
            && field.type_name.ends_with(&format!(".{}.{}", message.name, nested.name))
    });
    let kind = match entry {
        Some(entry) => {
            let parts: Vec<String> = entry.fields.iter().map(kind).collect();
            format!("map<{}>", parts.join(","))
        }
        None => kind(field),
    };
    let label = if field.label == REPEATED && entry.is_none() { "repeated" } else { "" };
    let options = field.options.unwrap_or_default();
    let flags = [(options.deprecated, "deprecated"), (options.debug_redact, "redact")];
    let flags: Vec<&str> =
        flags.into_iter().filter(|(set, _)| *set).map(|(_, word)| word).collect();
    let number = field.number.to_string();
    row(["field", &message.name, &number, label, &kind, &field.name, &flags.join(",")])
}

fn kind(field: &Field) -> String {
    let name = match field.kind {
        1 => "double",
        3 => "int64",
        4 => "uint64",
        5 => "int32",
        8 => "bool",
        9 => "string",
        11 | 14 => short(&field.type_name),
        12 => "bytes",
        13 => "uint32",
        other => panic!("{}: type {other} is used by no interface", field.name),
    };
    name.to_owned()
}

fn short(name: &str) -> &str {
    let names = INTERFACES.iter().find_map(|interface| {
        name.strip_prefix('.')?.strip_prefix(interface.package)?.strip_prefix('.')
    });
    names.unwrap_or(name)
}

fn row(columns: [&str; 7]) -> String {
    columns.join("\t")
}

/// `LABEL_REPEATED` of a field descriptor.
const REPEATED: i32 = 3;

/// The part of `google/protobuf/descriptor.proto` that this test compares. The crate prost-types drops
/// `debug_redact`, which keeps credentials out of logs and is part of the interface.
mod descriptor {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct FileSet {
        #[prost(message, repeated, tag = "1")]
        pub(crate) files: Vec<File>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct File {
        #[prost(string, tag = "2")]
        pub(crate) package: String,
        #[prost(message, repeated, tag = "4")]
        pub(crate) messages: Vec<Message>,
        #[prost(message, repeated, tag = "5")]
        pub(crate) enums: Vec<EnumType>,
        #[prost(message, repeated, tag = "6")]
        pub(crate) services: Vec<Service>,
        #[prost(string, tag = "12")]
        pub(crate) syntax: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Message {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(message, repeated, tag = "2")]
        pub(crate) fields: Vec<Field>,
        #[prost(message, repeated, tag = "3")]
        pub(crate) nested: Vec<Message>,
        #[prost(message, repeated, tag = "4")]
        pub(crate) enums: Vec<EnumType>,
        #[prost(message, optional, tag = "7")]
        pub(crate) options: Option<MessageOptions>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct MessageOptions {
        #[prost(bool, tag = "7")]
        pub(crate) map_entry: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Field {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(int32, tag = "3")]
        pub(crate) number: i32,
        #[prost(int32, tag = "4")]
        pub(crate) label: i32,
        #[prost(int32, tag = "5")]
        pub(crate) kind: i32,
        #[prost(string, tag = "6")]
        pub(crate) type_name: String,
        #[prost(message, optional, tag = "8")]
        pub(crate) options: Option<FieldOptions>,
        #[prost(int32, optional, tag = "9")]
        pub(crate) oneof: Option<i32>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct FieldOptions {
        #[prost(bool, tag = "3")]
        pub(crate) deprecated: bool,
        #[prost(bool, tag = "16")]
        pub(crate) debug_redact: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct EnumType {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(message, repeated, tag = "2")]
        pub(crate) values: Vec<EnumValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct EnumValue {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(int32, tag = "2")]
        pub(crate) number: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Service {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(message, repeated, tag = "2")]
        pub(crate) methods: Vec<Method>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Method {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(string, tag = "2")]
        pub(crate) input: String,
        #[prost(string, tag = "3")]
        pub(crate) output: String,
        #[prost(bool, tag = "5")]
        pub(crate) client_streaming: bool,
        #[prost(bool, tag = "6")]
        pub(crate) server_streaming: bool,
    }

    impl Message {
        /// Whether the compiler generated this message for the entries of a `map` field.
        pub(crate) fn is_map_entry(&self) -> bool {
            self.options.is_some_and(|options| options.map_entry)
        }
    }
}
