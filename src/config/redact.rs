//! Takes user names and passwords out of the URLs of a text.

/// The text with the user information of each URL (RFC 3986, section 3.2.1) replaced.
pub(super) fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split("://");
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        out.push_str("://");
        let end = part.find(ends_authority).unwrap_or(part.len());
        let (authority, rest) = part.split_at(end);
        match authority.rsplit_once('@') {
            Some((_, host)) => {
                out.push_str(REPLACEMENT);
                out.push_str(host);
            }
            None => out.push_str(authority),
        }
        out.push_str(rest);
    }
    out
}

fn ends_authority(c: char) -> bool {
    matches!(c, '/' | '?' | '#' | '"' | '\'' | '\\' | '<' | '>') || c.is_whitespace()
}

const REPLACEMENT: &str = "[redacted]@";

#[cfg(test)]
mod tests {
    use super::redact;

    #[test]
    fn only_the_user_information_of_a_url_goes() {
        for (text, redacted) in [
            ("", ""),
            ("http://h:1/a@b", "http://h:1/a@b"),
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
