//! Converts a reply to a value or an error.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use onetool_sdk::{ErrorKind, ToolError};
use onetool_state::bundles::ResponseEncoding;
use reqwest::Url;
use serde_json::Value as Json;

use super::extract::Extract;
use super::limits::ERROR_EXCERPT_CHARS;
use super::request::HttpTool;
use super::retry::retry_after;

/// A received reply.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// The unread body, if it is read in chunks.
    pub(crate) live: Option<reqwest::Response>,
}

pub(crate) fn upstream(status: Option<StatusCode>, message: &str) -> ToolError {
    ToolError::new(ErrorKind::Upstream { status: status.map(|status| status.as_u16()) }, message)
}

pub(crate) fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

pub(crate) fn is_success(tool: &HttpTool, status: StatusCode) -> bool {
    if tool.success_codes.is_empty() { status.is_success() } else { tool.success_codes.contains(&status.as_u16()) }
}

/// Fails for a status that is not a success.
pub(crate) fn require_success(tool: &HttpTool, url: &Url, reply: &Reply) -> Result<(), ToolError> {
    if is_success(tool, reply.status) {
        return Ok(());
    }
    let text = text(reply);
    let excerpt: String = text.chars().take(ERROR_EXCERPT_CHARS).collect();
    let excerpt = excerpt.split_whitespace().collect::<Vec<_>>().join(" ");
    let colon = if excerpt.is_empty() { "" } else { ": " };
    let error = upstream(Some(reply.status), &format!("{} answered {}{colon}{excerpt}", host_of(url), reply.status));
    Err(match (reply.status, retry_after(&reply.headers)) {
        (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, Some(wait)) => {
            error.with_hint(wait_hint(wait))
        }
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _) if tool.auth.is_some() => {
            error.with_hint(format!("`onetool bundles auth test {}` shows which step fails", tool.bundle_slug))
        }
        _ => error,
    })
}

/// The hint for a host that asks for a wait.
fn wait_hint(wait: Duration) -> String {
    format!("try again in {} s", wait.as_secs_f64().ceil().max(1.0))
}

/// Parses the wait from an error's hint, see [`wait_hint`].
pub(crate) fn wanted_wait(error: &ToolError) -> Option<Duration> {
    let seconds = error.hint.as_deref()?.strip_prefix("try again in ")?.strip_suffix(" s")?;
    seconds.parse().ok().map(Duration::from_secs)
}

/// Parses a successful reply as JSON.
pub(crate) fn json(url: &Url, reply: &Reply) -> Result<Json, ToolError> {
    // JSON is UTF-8, whatever the header says. Only if it is not valid UTF-8 is the declared encoding used.
    let text = match std::str::from_utf8(&reply.body) {
        Ok(text) => Cow::Borrowed(text.trim_start_matches('\u{feff}')),
        Err(_) => Cow::Owned(text(reply)),
    };
    if text.trim().is_empty() {
        return Ok(Json::Null);
    }
    serde_json::from_str(&text).map_err(|error| {
        let kind = content_type(reply).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if kind.is_empty() || kind.contains("json") {
            return upstream(Some(reply.status), &format!("{} did not answer with JSON: {error}", host_of(url)));
        }
        let kind: String = kind.chars().take(100).collect();
        upstream(Some(reply.status), &format!("{} answered with {kind}, not with JSON", host_of(url)))
            .with_hint("set the tool's responseEncoding to text to have it as it is")
    })
}

fn content_type(reply: &Reply) -> &str {
    reply.headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Decodes a reply in its declared encoding.
fn text(reply: &Reply) -> String {
    onetool_outbound::decode_text(&reply.body, content_type(reply))
}

/// Reads the value of a reply.
pub(crate) fn read(tool: &HttpTool, url: &Url, reply: &Reply) -> Result<Json, ToolError> {
    require_success(tool, url, reply)?;
    if let Extract::Pattern(pattern) = &tool.extract {
        return Ok(Extract::from_text(pattern, &text(reply)));
    }
    match tool.encoding {
        ResponseEncoding::Text => Ok(Json::from(text(reply))),
        ResponseEncoding::Json => Ok(tool.extract.from_value(json(url, reply)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(body: &[u8], content_type: &str) -> Reply {
        let headers = [(http::header::CONTENT_TYPE, content_type.parse().unwrap())].into_iter().collect();
        Reply { status: StatusCode::OK, headers, body: body.to_vec(), live: None }
    }

    #[test]
    fn texts_are_read_in_the_encoding_that_they_declare() {
        assert_eq!(text(&reply(b"gr\xfc\xdfe", "text/plain; charset=ISO-8859-1")), "gr\u{fc}\u{df}e");
        assert_eq!(text(&reply("grüße".as_bytes(), "text/plain")), "grüße");
        let url = Url::parse("http://a.example").unwrap();
        let read = |body: &[u8], kind: &str| json(&url, &reply(body, kind)).unwrap();
        assert_eq!(read("\u{feff}\"ü\"".as_bytes(), "application/json"), "ü");
        // A wrong header is harmless.
        assert_eq!(read("\"ü\"".as_bytes(), "application/json; charset=latin1"), "ü");
        assert_eq!(read(b"\"\xfc\"", "application/json; charset=latin1"), "ü");
        let refused = json(&url, &reply(b"<html>", "text/html; charset=utf-8")).unwrap_err();
        assert_eq!(refused.message, "a.example answered with text/html, not with JSON");
        assert!(refused.hint.unwrap().contains("responseEncoding"));
    }

    #[test]
    fn what_is_said_of_a_wait_can_be_read_again() {
        let error = upstream(None, "not now").with_hint(wait_hint(Duration::from_millis(7_900)));
        assert_eq!(wanted_wait(&error), Some(Duration::from_secs(8)));
        assert_eq!(wanted_wait(&upstream(None, "never").with_hint("try again")), None);
    }
}
