//! Removes user names, passwords and queries (which may contain signatures) from the URLs in a text.

/// The text with the user information and query of each URL (RFC 3986, section 3) replaced.
pub fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split("://");
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (url, rest) = part.split_at(part.find(ends_url).unwrap_or(part.len()));
        let (place, query) = url.split_at(url.find('?').unwrap_or(url.len()));
        let (authority, path) = place.split_at(place.find(['/', '#']).unwrap_or(place.len()));
        let (user, host) =
            authority.rsplit_once('@').map_or(("", authority), |(_, host)| (USER, host));
        let query = if query.is_empty() { "" } else { QUERY };
        out.extend(["://", user, host, path, query, rest]);
    }
    out
}

fn ends_url(c: char) -> bool {
    matches!(c, '"' | '\'' | '\\' | '<' | '>') || c.is_whitespace()
}

const USER: &str = "[redacted]@";
const QUERY: &str = "?[redacted]";

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn only_user_information_and_query_of_a_url_go() {
        for (text, redacted) in [
            ("", ""),
            ("http://h:1/a@b", "http://h:1/a@b"),
            (
                "a@b?c Get \"https://h/x?Sig=k&t=u:p@v\": EOF?",
                "a@b?c Get \"https://h/x?[redacted]\": EOF?",
            ),
            ("http://u:p@h?a=http://v:q@i/b", "http://[redacted]@h?[redacted]://[redacted]@i/b"),
            ("a http://u:p@h:1/x b", "a http://[redacted]@h:1/x b"),
            ("\"https://u:p@q@h\", c@d", "\"https://[redacted]@h\", c@d"),
            ("x://a@b y://c:d@e", "x://[redacted]@b y://[redacted]@e"),
            ("://@", "://[redacted]@"),
            ("unix:///run/a@b.sock", "unix:///run/a@b.sock"),
        ] {
            assert_eq!(redact(text), redacted);
        }
    }
}
