//! Determines the client of a request that a proxy forwards.
//!
//! A proxy appends the address it serves to `X-Forwarded-For` or `Forwarded`. Anybody can send such a header, so it
//! counts only from an address of `server.trusted_proxies`, and it is read from the end: the first address there that
//! is not a trusted proxy is the client. Everything before it is the client's own claim.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, header};
use onetool_outbound::{InvalidNetwork, Network};

use crate::PeerAddress;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The proxies that may state where a request comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<Network>);

impl TrustedProxies {
    /// Parses and adds an address or network.
    pub fn add(&mut self, written: &str) -> Result<(), InvalidNetwork> {
        self.0.push(written.parse()?);
        Ok(())
    }

    /// Replaces the address of a trusted proxy with that of the client it names.
    pub(crate) fn name_client(&self, request: &mut Request) {
        if self.0.is_empty() {
            return;
        }
        let Some(PeerAddress(peer)) = request.extensions().get().copied() else { return };
        let client = self.client(peer.ip().to_canonical(), request.headers());
        if client != peer.ip().to_canonical() {
            request.extensions_mut().insert(PeerAddress(SocketAddr::new(client, 0)));
        }
    }

    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.trusts(peer) {
            return peer;
        }
        let (x_forwarded_for, forwarded) = (x_forwarded_for(headers), forwarded(headers));
        match (x_forwarded_for.is_empty(), forwarded.is_empty()) {
            (_, true) => self.walk(peer, &x_forwarded_for),
            (true, false) => self.walk(peer, &forwarded),
            // One header may come from the client, forwarded by a proxy that writes only the other.
            (false, false) => {
                let client = self.walk(peer, &x_forwarded_for);
                if client == self.walk(peer, &forwarded) { client } else { peer }
            }
        }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// Follows the hops from the peer towards the client as long as each one is trusted.
    fn walk(&self, peer: IpAddr, hops: &[Option<IpAddr>]) -> IpAddr {
        let mut client = peer;
        for hop in hops.iter().rev() {
            match hop {
                Some(address) if self.trusts(client) => client = *address,
                _ => break,
            }
        }
        client
    }
}

/// Returns the addresses of `X-Forwarded-For`, the nearest last; `None` for invalid ones.
fn x_forwarded_for(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let lines = headers.get_all(X_FORWARDED_FOR).iter();
    lines.flat_map(|line| line.to_str().unwrap_or_default().split(',').map(hop).collect::<Vec<_>>()).collect()
}

/// Returns the addresses of `Forwarded` (RFC 7239) in the same way.
fn forwarded(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let of_element = |element: &str| {
        element.split(';').find_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            name.trim().eq_ignore_ascii_case("for").then(|| hop(value)).flatten()
        })
    };
    let lines = headers.get_all(header::FORWARDED).iter();
    lines.flat_map(|line| line.to_str().unwrap_or_default().split(',').map(of_element).collect::<Vec<_>>()).collect()
}

/// Parses an address with or without a port, quotation marks and brackets.
fn hop(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let address: Option<IpAddr> = text.parse().ok().or_else(bracketed);
    address
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
        .map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, lines: &[(&'static str, &'static str)]) -> String {
        let mut proxies = TrustedProxies::default();
        for network in ["10.0.0.0/8", "fd00::/8"] {
            proxies.add(network).unwrap();
        }
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        proxies.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn the_nearest_address_that_is_not_a_proxy_is_the_client() {
        let x = "x-forwarded-for";
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &[(x, "203.0.113.9")]), "203.0.113.9");
        assert_eq!(client("10.0.0.1", &[(x, "198.51.100.1, 203.0.113.9, 10.0.0.2")]), "203.0.113.9");
        assert_eq!(client("10.0.0.1", &[(x, "198.51.100.1"), (x, "203.0.113.9:4711")]), "203.0.113.9");
        assert_eq!(client("10.0.0.1", &[(x, "10.0.0.3,10.0.0.2")]), "10.0.0.3", "all of them are proxies");
        assert_eq!(client("10.0.0.1", &[(x, "203.0.113.9, unknown, 10.0.0.2")]), "10.0.0.2", "nobody knows further");
        assert_eq!(client("10.0.0.1", &[(x, "::ffff:203.0.113.9")]), "203.0.113.9");
        assert_eq!(client("fd00::1", &[(x, "[2001:db8::7]:80")]), "2001:db8::7");
        let forwarded = "for=198.51.100.1, for=203.0.113.9;proto=https;by=10.0.0.2, For=\"10.0.0.2:80\"";
        assert_eq!(client("10.0.0.1", &[("forwarded", forwarded)]), "203.0.113.9");
        assert_eq!(client("10.0.0.1", &[("forwarded", "for=\"[2001:db8::7]:4711\"")]), "2001:db8::7");
        assert_eq!(client("10.0.0.1", &[("forwarded", "proto=https, for=_hidden")]), "10.0.0.1");
    }

    #[test]
    fn nobody_else_is_believed() {
        for name in ["x-forwarded-for", "forwarded"] {
            assert_eq!(client("203.0.113.9", &[(name, "for=198.51.100.1"), (name, "198.51.100.1")]), "203.0.113.9");
        }
        // A proxy that writes one header forwards the client's own value of the other.
        let both = [("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=198.51.100.1")];
        assert_eq!(client("10.0.0.1", &both), "10.0.0.1");
        let both = [("x-forwarded-for", "203.0.113.9"), ("forwarded", "for=203.0.113.9")];
        assert_eq!(client("10.0.0.1", &both), "203.0.113.9");
    }
}
