//! CRI v1alpha2 of crictl 1.23 and kubelets before 1.23. Its messages are those of v1, so methods of v1 answer.

use http::{Request, Uri, uri::PathAndQuery};

/// Changes the path of a request for v1alpha2 to that of v1. Leaves all other requests unchanged.
pub(super) fn to_v1<B>(mut request: Request<B>) -> Request<B> {
    if let Some(method) = request.uri().path().strip_prefix("/runtime.v1alpha2.")
        && let Ok(path) = PathAndQuery::try_from(format!("/runtime.v1.{method}"))
    {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.path_and_query = Some(path);
        // `from_parts` cannot fail here: a valid URI with another valid path is also valid.
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_old_name_is_replaced() {
        for (old, new) in [
            ("/runtime.v1alpha2.ImageService/ListImages", "/runtime.v1.ImageService/ListImages"),
            ("/runtime.v1.ImageService/ListImages", "/runtime.v1.ImageService/ListImages"),
            ("/runtime.v1alpha2", "/runtime.v1alpha2"),
            ("http://localhost/runtime.v1alpha2.A/B", "http://localhost/runtime.v1.A/B"),
        ] {
            let request = Request::builder().uri(old).body(()).unwrap();
            assert_eq!(to_v1(request).uri().to_string(), new);
        }
    }
}
