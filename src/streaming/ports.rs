//! The ports that a WebSocket client wants to forward, and their maximum number. No I/O.

use super::{upgrade::Encoding, websocket::message::Format};

/// The values of `port` in a query, repeated or separated by commas. `None` if a value is not a port.
pub(super) fn of_query(query: Option<&str>) -> Option<Vec<u16>> {
    query
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.strip_prefix("port="))
        .flat_map(|value| {
            value.split([',']).flat_map(|part| part.split("%2C")).flat_map(|part| part.split("%2c"))
        })
        .map(|port| port.parse().ok().filter(|port| *port != 0))
        .collect()
}

/// The maximum number of ports on one connection: each port needs two of the limited channel numbers.
pub(super) fn most(encoding: Encoding) -> usize {
    Format { encoding, closes: false }.channels() / CHANNELS_OF_A_PORT
}

const CHANNELS_OF_A_PORT: usize = 2;

#[cfg(test)]
mod tests {
    use super::{Encoding, most, of_query};

    #[test]
    fn ports_are_read() {
        let rows: [(Option<&str>, Option<&[u16]>); 9] = [
            (None, Some(&[])),
            (Some(""), Some(&[])),
            (Some("port=80"), Some(&[80])),
            (Some("port=80&x=1&port=65535"), Some(&[80, 65535])),
            (Some("port=80,81%2C82%2c83"), Some(&[80, 81, 82, 83])),
            (Some("ports=80"), Some(&[])),
            (Some("port=0"), None),
            (Some("port=65536"), None),
            (Some("port=80&port="), None),
        ];
        for (query, ports) in rows {
            assert_eq!(of_query(query).as_deref(), ports, "{query:?}");
        }
    }

    #[test]
    fn channels_are_numbered_in_one_byte() {
        assert_eq!(most(Encoding::Binary), 127);
        assert_eq!(most(Encoding::Base64), 40);
    }
}
