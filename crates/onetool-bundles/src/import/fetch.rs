//! Fetches documents from hosts that the configuration allows.

use http::Method;
use http::header::LOCATION;
use onetool_sdk::{ErrorKind, ToolError};
use reqwest::Url;

use crate::HttpEngine;
use crate::exchange::failure;
use crate::limits::MAX_REDIRECTS;
use crate::reply::{host_of, upstream};

impl HttpEngine {
    /// Fetches a document from a host that the configuration allows.
    pub async fn fetch(&self, url: &str, limit: usize) -> Result<String, ToolError> {
        let mut url =
            Url::parse(url).map_err(|error| ToolError::arguments(format!("the address is not valid: {error}")))?;
        for _ in 0..=MAX_REDIRECTS {
            if !matches!(url.scheme(), "http" | "https") {
                let message = format!("'{}' addresses are not supported; http and https are", url.scheme());
                return Err(ToolError::arguments(message));
            }
            if !self.settings.allowed_hosts.permits(&url) {
                return Err(ToolError::denied(format!("the host {} is not allowed", host_of(&url)))
                    .with_hint("add it to http.allowed_hosts, or fetch the document yourself and import the file"));
            }
            let failed = |error: reqwest::Error| failure(error, &Method::GET, &url).error;
            let client = self.client().map_err(|failure| failure.error)?;
            let send = client.get(url.clone()).timeout(self.settings.max_timeout).send();
            let mut response = send.await.map_err(failed)?;
            if response.status().is_redirection() {
                let target = response.headers().get(LOCATION).and_then(|target| target.to_str().ok());
                let target = target.and_then(|target| url.join(target).ok());
                url = target.ok_or_else(|| upstream(Some(response.status()), "it redirects to nowhere"))?;
                continue;
            }
            if !response.status().is_success() {
                return Err(upstream(
                    Some(response.status()),
                    &format!("{} answered {}", host_of(&url), response.status()),
                ));
            }
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(failed)? {
                if body.len() + chunk.len() > limit {
                    let message = format!("the document has more than {limit} bytes");
                    return Err(ToolError::new(ErrorKind::TooLarge, message));
                }
                body.extend_from_slice(&chunk);
            }
            return String::from_utf8(body).map_err(|_| upstream(None, "the document is not UTF-8"));
        }
        Err(upstream(None, &format!("it redirects more than {MAX_REDIRECTS} times")))
    }
}
