//! The messages of OTLP 1 for a trace collector: the fields that dockbridge uses, with the protocol's numbers.

use std::time::UNIX_EPOCH;

use crate::telemetry::trace::FinishedSpan;

/// The message of one export: a batch of spans.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// Spans of one program.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

/// The program that recorded the spans.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// Spans of a part of a program.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// One span.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// 8 bytes; empty for a span without a parent.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub name: String,
    /// The kind of a span: 1 is internal, 2 is server, 3 is client.
    #[prost(int32, tag = "6")]
    pub kind: i32,
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
}

/// How a span ended.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Status {
    #[prost(string, tag = "2")]
    pub message: String,
    /// 2 means that the operation failed.
    #[prost(int32, tag = "3")]
    pub code: i32,
}

/// A named value.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

/// A value. dockbridge sends only values that are texts.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct AnyValue {
    #[prost(string, optional, tag = "1")]
    pub string_value: Option<String>,
}

impl ExportTraceServiceRequest {
    /// Makes a request that exports these spans as spans of dockbridge.
    pub fn of(spans: impl IntoIterator<Item = FinishedSpan>) -> Self {
        let spans = spans.into_iter().map(Span::from).collect();
        let attributes = vec![
            KeyValue::text("service.name", "dockbridge".to_owned()),
            KeyValue::text("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ];
        let resource = Some(Resource { attributes });
        let scope_spans = vec![ScopeSpans { spans }];
        Self { resource_spans: vec![ResourceSpans { resource, scope_spans }] }
    }
}

impl From<FinishedSpan> for Span {
    fn from(ended: FinishedSpan) -> Self {
        let begun = ended.begun.duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let attributes = ended.attributes.into_iter();
        Self {
            trace_id: ended.trace.to_vec(),
            span_id: ended.span.to_vec(),
            parent_span_id: ended.parent.map(Vec::from).unwrap_or_default(),
            name: ended.name,
            kind: match ended.kind {
                "rpc" => 2,
                "engine" => 3,
                _ => 1,
            },
            start_time_unix_nano: nanos(begun),
            end_time_unix_nano: nanos(begun.saturating_add(ended.took)),
            attributes: attributes.map(|(key, text)| KeyValue::text(key, text)).collect(),
            status: ended.failure.map(|message| Status { message, code: FAILED }),
        }
    }
}

impl KeyValue {
    fn text(key: &str, text: String) -> Self {
        Self { key: key.to_owned(), value: Some(AnyValue { string_value: Some(text) }) }
    }
}

const FAILED: i32 = 2;
