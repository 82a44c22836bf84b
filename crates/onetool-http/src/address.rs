//! Parses listen addresses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The default listen address: this machine only.
pub const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8765);

/// Text that is not an address.
#[derive(Debug, thiserror::Error)]
#[error("'{given}' is not an address; expected one like 127.0.0.1:8765, localhost:8765 or a port alone")]
pub struct InvalidAddress {
    given: String,
}

/// Parses an address and a port. A port alone, and `localhost`, mean this machine.
pub fn parse_address(text: &str) -> Result<SocketAddr, InvalidAddress> {
    let text = text.trim();
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    text.parse()
        .ok()
        .or_else(|| port.parse().ok().map(|port| SocketAddr::new(DEFAULT_ADDRESS.ip(), port)))
        .ok_or_else(|| InvalidAddress { given: text.chars().take(80).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        for (text, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            (" 0.0.0.0:0 ", "0.0.0.0:0"),
            ("[::1]:9", "[::1]:9"),
            ("localhost:9000", "127.0.0.1:9000"),
            ("9000", "127.0.0.1:9000"),
        ] {
            assert_eq!(parse_address(text).unwrap().to_string(), expected);
        }
        for text in ["", "127.0.0.1", "example.org:80", "localhost", "70000", "http://127.0.0.1:80", "-1"] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }
}
