//! A network in the usual notation: an address alone, or an address with its prefix length.

use std::net::IpAddr;
use std::str::FromStr;

/// Addresses that share a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// The error for text that is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is not an address or a network; expected one like 10.0.0.7, 10.0.0.0/8 or fd00::/8")]
pub struct InvalidNetwork {
    given: String,
}

impl Network {
    /// The network of one address.
    pub fn single(address: IpAddr) -> Self {
        Self { address, bits: most(address) }
    }

    pub fn contains(self, address: IpAddr) -> bool {
        match (address, self.address) {
            (IpAddr::V4(address), IpAddr::V4(network)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                u32::from(address) & mask == u32::from(network) & mask
            }
            (IpAddr::V6(address), IpAddr::V6(network)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                u128::from(address) & mask == u128::from(network) & mask
            }
            _ => false,
        }
    }
}

fn most(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let wrong = || InvalidNetwork { given: text.chars().take(80).collect() };
        let (address, bits) = match text.trim().split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text.trim(), None),
        };
        let address: IpAddr = address.trim_matches(['[', ']']).parse().map_err(|_| wrong())?;
        let bits = bits.map_or(Ok(most(address)), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > most(address) {
            return Err(wrong());
        }
        Ok(Self { address, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks_are_told_apart_by_their_bits() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.1.2", "11.0.0.1"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("fd00::/8", "fd12::1", "fe80::1"),
            ("[::1]", "::1", "127.0.0.1"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{network:?} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{network:?} {outside}");
        }
        for text in ["", "10.0.0.0/33", "fd00::/129", "10.0.0.0/-1", "10.0.0.0/", "proxy.example.org", "10.0.0.1:80"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
