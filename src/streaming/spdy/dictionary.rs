//! The dictionary for header compression in both directions (SPDY/3, section 2.6.10.1). The dictionary has
//! common header names and values, each after its length, and then more values without a length.

/// The 1,423 bytes of the dictionary, with the Adler-32 checksum `0xe3c6a7c2`.
pub(super) fn bytes() -> Vec<u8> {
    let mut all = Vec::with_capacity(SIZE);
    for word in WORDS.split(' ') {
        let length = u32::try_from(word.len()).unwrap_or_default();
        all.extend_from_slice(&length.to_be_bytes());
        // `WORDS` has `200+OK` for the value `200 OK`.
        all.extend(word.bytes().map(|byte| if byte == b'+' { b' ' } else { byte }));
    }
    all.extend_from_slice(TAIL.as_bytes());
    all
}

const SIZE: usize = 1423;

const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding \
    accept-language accept-ranges age allow authorization cache-control connection content-base \
    content-encoding content-language content-length content-location content-md5 content-range \
    content-type date etag expect expires from host if-match if-modified-since if-none-match \
    if-range if-unmodified-since last-modified location max-forwards pragma proxy-authenticate \
    proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200+OK version HTTP/1.1 url \
    public set-cookie keep-alive origin";

const TAIL: &str = "10010120120220520630030230330430530630740240540640740840941041141241341441541641750\
    2504505203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 \
    Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service \
    UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, \
    Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,\
    application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,\
    sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

#[cfg(test)]
mod tests;
