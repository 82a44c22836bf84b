//! Which hosts requests may go to.
//!
//! A rule is `[scheme://]host[:port]`. The host is an exact name, `*.example.com` (any subdomain), `*` (any public
//! host), an address or a network (`10.0.0.0/8`). An allowed name still may not resolve to an address of this machine
//! or of a private network: such addresses must be listed themselves (or be loopback for the listed name `localhost`).
//! A listed address with a scheme or port covers only requests to the address itself with that scheme and port; for a
//! name that resolves to it, list the address alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::network::Network;

/// The error for an invalid host rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{rule}' is not a host rule; write host, *.host, host:port, https://host, an address or a network")]
pub struct HostRuleError {
    pub rule: String,
}

/// The rules of `http.allowed_hosts`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    scheme: Option<&'static str>,
    host: HostRule,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostRule {
    Any,
    Exact(String),
    /// With its leading dot.
    Below(String),
    Network(Network),
}

impl AllowedHosts {
    pub fn parse<'a>(rules: impl IntoIterator<Item = &'a str>) -> Result<Self, HostRuleError> {
        let rules = rules.into_iter().map(parse_rule).collect::<Result<_, _>>()?;
        Ok(Self { rules })
    }

    /// Allows only the origin of a URL that the configuration itself names.
    pub fn origin_of(url: &Url) -> Self {
        let text = url.origin().ascii_serialization();
        Self { rules: parse_rule(&text).into_iter().collect() }
    }

    /// Whether a request may go to this URL at all, before its name is resolved.
    pub fn permits(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        let literal = literal_address(host);
        // `*` never covers this machine or a private network, whatever else is listed. A name is checked again when it
        // is resolved, but without its port, so only the rules for `localhost` apply to it here.
        let is_private = match literal {
            Some(address) => !is_public(unwrap_mapped(address)),
            None => {
                is_this_machine(host) && self.rules.iter().any(|rule| rule.host == HostRule::Exact("localhost".into()))
            }
        };
        self.rules.iter().any(|rule| {
            rule.scheme.is_none_or(|scheme| scheme == url.scheme())
                && rule.port.is_none_or(|port| url.port_or_known_default() == Some(port))
                && !(is_private && rule.host == HostRule::Any)
                && rule.host.matches(host, literal)
        })
    }

    /// Whether a name may resolve to this address.
    pub fn permits_address(&self, host: &str, address: IpAddr) -> bool {
        let address = unwrap_mapped(address);
        is_public(address)
            || self.rules.iter().any(|rule| match &rule.host {
                // The port and scheme of the request are unknown here, so a rule that names either does not apply.
                HostRule::Network(_) => {
                    rule.port.is_none() && rule.scheme.is_none() && rule.host.matches("", Some(address))
                }
                HostRule::Exact(name) => name == "localhost" && host == "localhost" && address.is_loopback(),
                HostRule::Any | HostRule::Below(_) => false,
            })
    }
}

impl HostRule {
    fn matches(&self, host: &str, literal: Option<IpAddr>) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(name) => literal.is_none() && host.eq_ignore_ascii_case(name),
            Self::Below(suffix) => {
                literal.is_none() && host.len() > suffix.len() && host.to_ascii_lowercase().ends_with(suffix.as_str())
            }
            Self::Network(network) => literal.is_some_and(|literal| network.contains(unwrap_mapped(literal))),
        }
    }
}

fn parse_rule(rule: &str) -> Result<Rule, HostRuleError> {
    let wrong = || HostRuleError { rule: rule.to_owned() };
    let text = rule.trim();
    let (scheme, rest) = match text.split_once("://") {
        Some(("http", rest)) => (Some("http"), rest),
        Some(("https", rest)) => (Some("https"), rest),
        Some(_) => return Err(wrong()),
        None => (None, text),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains('/') {
        let network = rest.parse().map_err(|_| wrong())?;
        return Ok(Rule { scheme, host: HostRule::Network(network), port: None });
    }
    if let Ok(address) = rest.parse::<IpAddr>() {
        return Ok(Rule { scheme, host: single(address), port: None });
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, Some(port.parse::<u16>().map_err(|_| wrong())?)),
        None => (rest, None),
    };
    if let Ok(address) = host.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(Rule { scheme, host: single(address), port });
    }
    let host = host.to_ascii_lowercase();
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with('.')
            && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '.' | '_'))
    };
    let host = match host.strip_prefix("*.") {
        _ if host == "*" => HostRule::Any,
        Some(parent) if is_name(parent) => HostRule::Below(format!(".{parent}")),
        None if is_name(&host) => HostRule::Exact(host),
        _ => return Err(wrong()),
    };
    Ok(Rule { scheme, host, port })
}

fn single(address: IpAddr) -> HostRule {
    HostRule::Network(Network::single(unwrap_mapped(address)))
}

/// Names that always resolve to this machine.
fn is_this_machine(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost")
}

fn literal_address(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok()
}

/// Returns the IPv4 address embedded in an IPv6 address (mapped, translated or 6to4), otherwise the address itself.
fn unwrap_mapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    if let Some(v4) = v6.to_ipv4_mapped() {
        return IpAddr::V4(v4);
    }
    let [a, b, c, ..] = v6.segments();
    let embedded = |high: u16, low: u16| {
        let [h1, h2] = high.to_be_bytes();
        let [l1, l2] = low.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(h1, h2, l1, l2))
    };
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        _ if a == 0x2002 => embedded(b, c),
        _ => address,
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            !(v4.is_private()
                || v4.is_loopback()
                || v4.is_link_local()
                || v4.is_multicast()
                || v4.is_documentation()
                || a == 0
                || a >= 240
                || (a == 100 && (64..128).contains(&b))
                || (a == 192 && b == 0 && c == 0)
                || (a == 198 && (b == 18 || b == 19)))
        }
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Only 2000::/3 is allocated; within it, Teredo and the documentation block are not hosts.
    (first & 0xe000) == 0x2000 && !(first == 0x2001 && (second == 0 || second == 0x0db8))
}

/// The cause of a failed connection: the name resolved to a forbidden address.
#[derive(Debug, thiserror::Error)]
#[error("{host} resolves to {address}, which is not a public address")]
pub struct ForbiddenAddress {
    pub host: String,
    pub address: IpAddr,
}

/// Resolves names and returns only addresses that the rules permit.
pub struct CheckedResolver {
    pub allowed: Arc<AllowedHosts>,
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = self.allowed.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let permitted: Vec<SocketAddr> =
                found.iter().copied().filter(|address| allowed.permits_address(&host, address.ip())).collect();
            match (permitted.is_empty(), found.first()) {
                (true, Some(address)) => Err(ForbiddenAddress { host, address: address.ip() }.into()),
                _ => Ok(Box::new(permitted.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(rules: &[&str], url: &str) -> bool {
        AllowedHosts::parse(rules.iter().copied()).unwrap().permits(&Url::parse(url).unwrap())
    }

    #[test]
    fn rules_match_host_port_and_scheme() {
        for (rule, good, bad) in [
            ("api.example.com", "https://API.example.com/x", "https://example.com/"),
            ("*.example.com", "https://a.b.example.com/", "https://example.com/"),
            ("*.example.com", "https://a.example.com/", "https://evilexample.com/"),
            ("example.com:8443", "https://example.com:8443/", "https://example.com/"),
            ("https://example.com", "https://example.com/", "http://example.com/"),
            ("*", "https://example.com/", "http://127.0.0.1/"),
            ("127.0.0.1:80", "http://127.0.0.1/", "http://127.0.0.1:81/"),
            ("127.0.0.1", "http://2130706433/", "http://127.0.0.2/"),
            ("127.0.0.1", "http://[::ffff:127.0.0.1]/", "http://[::1]/"),
            ("10.0.0.0/8", "http://10.1.2.3/", "http://11.1.2.3/"),
            ("example.com", "https://example.com/", "https://example.com.evil.org/"),
        ] {
            assert!(permits(&[rule], good), "{rule} {good}");
            assert!(!permits(&[rule], bad), "{rule} {bad}");
        }
        assert!(!permits(&[], "https://example.com/"));
        // A rule for one port of this machine does not open others, whatever else is allowed.
        for (rules, good, bad) in [
            (["*", "127.0.0.1:9000"], "http://127.0.0.1:9000/", "http://127.0.0.1:22/"),
            (["*", "http://127.0.0.1:9000"], "http://127.0.0.1:9000/", "https://127.0.0.1:9000/"),
            (["*", "localhost:9000"], "http://localhost:9000/", "http://localhost:22/"),
            (["*", "[::1]:9000"], "http://[::1]:9000/", "http://[::1]:22/"),
        ] {
            assert!(permits(&rules, good), "{rules:?} {good}");
            assert!(!permits(&rules, bad), "{rules:?} {bad}");
        }
        let hosts = AllowedHosts::parse(["*", "127.0.0.1:9000"]).unwrap();
        assert!(!hosts.permits_address("evil.example.com", "127.0.0.1".parse().unwrap()));
        for bad in ["", "ftp://x", "a b", "*.", "x:99999", "10.0.0.0/33", "*x"] {
            assert!(AllowedHosts::parse([bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_do_not_lead_inside() {
        let hosts = AllowedHosts::parse(["*", "rebind.example.com", "localhost", "10.0.0.0/8"]).unwrap();
        let address = |text: &str| text.parse().unwrap();
        for bad in [
            "127.0.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "0.0.0.0",
            "100.64.0.1",
            "fe80::1",
            "2001:db8::1",
        ] {
            assert!(!hosts.permits_address("rebind.example.com", address(bad)), "{bad}");
        }
        assert!(hosts.permits_address("rebind.example.com", address("93.184.216.34")));
        assert!(hosts.permits_address("rebind.example.com", address("10.9.9.9")));
        assert!(hosts.permits_address("localhost", address("127.0.0.1")));
        assert!(hosts.permits_address("x", address("2606:4700::1111")));
    }
}
