//! Where spans go. Checked once; afterwards a request cannot be malformed.

use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;

/// Where spans go, and as whose. `Debug` shows no header's value.
#[derive(Debug, Clone, PartialEq)]
pub struct TelemetrySettings {
    pub(super) url: Url,
    pub(super) service_name: String,
    pub(super) headers: HeaderMap,
}

/// What is wrong with an address.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("no valid address ({0}); expected e.g. http://127.0.0.1:4318")]
    Url(String),
    #[error("the header '{0}' has a name or a value that no header may have")]
    Header(String),
}

/// Below a collector's address.
const TRACES: &str = "/v1/traces";

impl TelemetrySettings {
    pub fn new(endpoint: &str, service_name: String, headers: &[(String, String)]) -> Result<Self, TelemetryError> {
        let base = endpoint.trim_end_matches('/');
        let full = if base.ends_with(TRACES) { base.to_owned() } else { format!("{base}{TRACES}") };
        let url = Url::parse(&full).map_err(|error| TelemetryError::Url(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(TelemetryError::Url("it is neither http nor https".to_owned()));
        }
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let wrong = || TelemetryError::Header(name.clone());
            let key = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
            let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            map.insert(key, value);
        }
        Ok(Self { url, service_name, headers: map })
    }
}
