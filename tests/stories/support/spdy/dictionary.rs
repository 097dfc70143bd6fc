//! SPDY's dictionary, with which both sides initialise zlib. The dictionary is built from the words in the
//! specification (section 2.6.10.1). A check of the dictionary's Adler-32 shows that the dictionary is complete.

use std::sync::LazyLock;

pub(crate) static DICTIONARY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut bytes = Vec::new();
    let phrases =
        ["200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"];
    for word in WORDS.split_whitespace().chain(phrases) {
        bytes.extend(u32::try_from(word.len()).unwrap().to_be_bytes());
        bytes.extend(word.as_bytes());
    }
    for part in [CODES, REASONS, DATES, TYPES, REST] {
        bytes.extend(part.as_bytes());
    }
    assert_eq!(adler32(&bytes), ID, "the header dictionary is not the specification's");
    bytes
});

/// The Adler-32 checksum, by which zlib identifies the dictionary.
pub(crate) const ID: u32 = 0xe3c6_a7c2;

fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % 65521;
        (low, (high + low) % 65521)
    });
    high << 16 | low
}

const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding \
    accept-language accept-ranges age allow authorization cache-control connection content-base \
    content-encoding content-language content-length content-location content-md5 content-range \
    content-type date etag expect expires from host if-match if-modified-since if-none-match \
    if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate \
    proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status";
const CODES: &str =
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505";
const REASONS: &str = "203 Non-Authoritative Information204 No Content301 Moved Permanently\
    400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error\
    501 Not Implemented503 Service Unavailable";
const DATES: &str = "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 \
    Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT";
const TYPES: &str = "chunked,text/html,image/png,image/jpg,image/gif,application/xml,\
    application/xhtml+xml,text/plain,text/javascript,public";
const REST: &str = "privatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";
