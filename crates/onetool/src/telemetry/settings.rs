//! Where telemetry is sent. Validated once, so that requests cannot be malformed later.

use http::{HeaderMap, HeaderName, HeaderValue};
use indexmap::IndexMap;
use onetool_config::{Expandable, Reader, Section, Shape, keys};
use reqwest::Url;
use std::time::Duration;

keys! {
    /// Spans of runs and calls, and measurements, sent by OTLP over HTTP.
    pub struct TelemetryKeys {
        /// Address of the collector. Without it, nothing is sent.
        otlp_endpoint: Option<Expandable> = None, live, example "http://127.0.0.1:4318";
        /// Seconds between two deliveries of measurements, the same that /metrics shows; 0 delivers none.
        metrics_interval: Duration [Shape::Number(0.0, 86_400.0)] = Duration::from_mins(1), live;
        /// Name of this service.
        service_name: String = "onetool".to_owned(), live;
        /// Headers of every request.
        headers: IndexMap<String, Expandable> = IndexMap::new(), live,
            example "{Authorization: \"Bearer ${COLLECTOR_TOKEN}\"}";
    }
}

pub const TELEMETRY: Section<TelemetryKeys> = Section::new("telemetry");

/// Where telemetry is sent, and under which name. `Debug` shows no header values.
#[derive(Debug, Clone, PartialEq)]
pub struct TelemetrySettings {
    pub(super) url: Url,
    pub(super) metrics_url: Url,
    pub(super) metrics_interval: Duration,
    pub(super) service_name: String,
    pub(super) headers: HeaderMap,
}

impl TelemetrySettings {
    /// The values of its headers, which may be secrets.
    pub fn header_values(&self) -> Vec<String> {
        self.headers.values().filter_map(|value| value.to_str().ok().map(str::to_owned)).collect()
    }
}

/// Why an address is invalid.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("invalid address ({0}); expected e.g. http://127.0.0.1:4318")]
    Url(String),
    #[error("the header '{0}' has an invalid name or value")]
    Header(String),
}

/// Paths below the collector's address.
const TRACES: &str = "/v1/traces";
const METRICS: &str = "/v1/metrics";

impl TelemetrySettings {
    /// Reads the section `telemetry`. Without an address, or with an invalid value, nothing is sent.
    pub fn read(reader: &mut Reader) -> Option<Self> {
        let keys = reader.read(&TELEMETRY);
        let endpoint = keys.otlp_endpoint.filter(|endpoint| !endpoint.as_written().trim().is_empty())?;
        let missing = |name: &str| format!("no secret and no variable '{name}'; nothing is sent");
        let address = ["telemetry", "otlp_endpoint"];
        let endpoint = match reader.expand(&endpoint) {
            Ok(endpoint) => endpoint,
            Err(name) => {
                reader.problem(&address, &missing(&name));
                return None;
            }
        };
        let mut headers = Vec::new();
        for (header, value) in keys.headers {
            match reader.expand(&value) {
                Ok(value) => headers.push((header, value)),
                Err(name) => {
                    reader.problem(&["telemetry", "headers", &header], &missing(&name));
                    return None;
                }
            }
        }
        match Self::new(endpoint.trim(), keys.service_name, &headers) {
            Ok(settings) => Some(Self { metrics_interval: keys.metrics_interval, ..settings }),
            Err(error) => {
                reader.problem(&address, &format!("{error}; nothing is sent"));
                None
            }
        }
    }

    pub fn new(endpoint: &str, service_name: String, headers: &[(String, String)]) -> Result<Self, TelemetryError> {
        let base = endpoint.trim_end_matches('/');
        let base = base.strip_suffix(TRACES).unwrap_or(base);
        let below = |path| Url::parse(&format!("{base}{path}")).map_err(|error| TelemetryError::Url(error.to_string()));
        let (url, metrics_url) = (below(TRACES)?, below(METRICS)?);
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
        Ok(Self { url, metrics_url, metrics_interval: Duration::ZERO, service_name, headers: map })
    }
}
