//! Requests field by field: what is taken, what is refused and under which name.

use super::{container::container_spec, sandbox::sandbox_spec};
use crate::wire::cri;

#[test]
fn an_empty_request_names_what_is_missing() {
    let field = |error: super::error::ParseError| error.field;
    assert_eq!(field(sandbox_spec(None, "").unwrap_err()), "config");
    let empty = cri::PodSandboxConfig::default();
    assert_eq!(field(sandbox_spec(Some(&empty), "").unwrap_err()), "config.metadata");
    assert_eq!(field(container_spec(None, None).unwrap_err()), "config");
}
