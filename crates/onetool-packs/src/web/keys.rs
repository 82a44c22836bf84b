//! `tools.web` of the configuration.

use std::time::Duration;

use indexmap::IndexMap;
use onetool_config::{Expandable, MAX_BYTES, Reader, Section, Shape, choices, keys};
use onetool_outbound::AllowedHosts;

use super::settings::{Engine, EngineKind, WebSettings};

choices!(EngineKind { "brave" => Brave, "searxng" => SearXng, "tavily" => Tavily });

keys! {
    /// A search engine of the pack `web`.
    pub struct EngineKeys {
        /// How it is asked. Without it, its name says so.
        kind: Option<EngineKind> = None, live;
        /// Its address. Without it, the usual one; SearXNG has none.
        url: Option<String> = None, live;
        /// The key that it asks for.
        key: Option<Expandable> = None, live;
    }
}

keys! {
    /// The pack `web`.
    pub struct WebKeys {
        /// Hosts that pages may be read from. `*` is every public address; this machine and private networks must be named.
        allowed_hosts: Vec<String> = vec!["*".to_owned()], live;
        /// Whether a site's robots.txt is followed.
        robots: bool = true, live;
        /// Largest reply, in bytes.
        max_bytes: usize [Shape::Count(1, MAX_BYTES)] = 5 << 20, live;
        /// Longest time for a page, redirects included.
        timeout: Duration = Duration::from_secs(30), live;
        /// Seconds that a reply is used again; 0 keeps none.
        cache_ttl: u64 [Shape::Count(0, 86_400)] = 300, live;
        /// Pages that fetch_all reads at once.
        max_parallel: usize [Shape::Count(1, 64)] = 8, live;
        /// Search engines by name. The first is used where none is named.
        engines: IndexMap<String, EngineKeys> = IndexMap::new(), live, example "{local: {kind: searxng, url: \"http://127.0.0.1:8888\"}}";
    }
}

pub const WEB: Section<WebKeys> = Section::new("tools.web");

const ALLOWED_HOSTS: &[&str] = &["tools", "web", "allowed_hosts"];

impl WebSettings {
    /// Reads the section `tools.web`.
    pub fn read(reader: &mut Reader) -> Self {
        let keys = reader.read(&WEB);
        let allowed_hosts = match AllowedHosts::parse(keys.allowed_hosts.iter().map(String::as_str)) {
            // An invalid value must not allow more than was intended.
            _ if reader.is_wrong(ALLOWED_HOSTS) => AllowedHosts::default(),
            Ok(hosts) => hosts,
            Err(error) => {
                reader.problem(ALLOWED_HOSTS, &error.to_string());
                AllowedHosts::default()
            }
        };
        let engines = keys.engines.into_iter().filter_map(|(name, keys)| engine(reader, name, keys)).collect();
        Self {
            allowed_hosts,
            follows_robots: keys.robots,
            max_bytes: keys.max_bytes,
            timeout: keys.timeout,
            cache_ttl: Duration::from_secs(keys.cache_ttl),
            max_parallel: keys.max_parallel,
            engines,
        }
    }
}

fn engine(reader: &mut Reader, name: String, keys: EngineKeys) -> Option<Engine> {
    let path = ["tools", "web", "engines", &name];
    let Some(kind) = keys.kind.or_else(|| EngineKind::named(&name)) else {
        reader.problem(&path, "it needs a kind: brave, searxng or tavily");
        return None;
    };
    let Some(url) = keys.url.or_else(|| kind.usual_url().map(str::to_owned)) else {
        reader.problem(&path, "it needs a url");
        return None;
    };
    let key = match keys.key.as_ref().map(|key| reader.expand(key)).transpose() {
        Ok(key) => key,
        Err(missing) => {
            reader.problem(&path, &format!("its key names {missing}, which is not set"));
            None
        }
    };
    let secrets = keys.key.as_ref().map(|key| reader.secrets_in(key)).unwrap_or_default();
    Some(Engine { name, kind, url, key, secrets })
}
