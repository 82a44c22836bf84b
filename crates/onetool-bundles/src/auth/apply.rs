//! Adds authentication to a request: a header, a query parameter or a body field.

use http::{HeaderName, HeaderValue};
use onetool_sdk::ToolError;
use onetool_state::bundles::{ApplyEntry, ApplyPlace};

use super::sign_text::SignText;
use super::sigv4::append_query;
use crate::request::{Rendered, header_name};
use crate::template::percent_encode;

/// A parsed entry of `apply`.
#[derive(Debug)]
pub(crate) struct Entry {
    place: Place,
    pub(crate) value: SignText,
}

#[derive(Debug)]
enum Place {
    Header(HeaderName),
    Query(String),
    BodyField(String),
}

impl Entry {
    pub(crate) fn compile(entry: &ApplyEntry) -> Result<Self, String> {
        let place = match entry.place {
            ApplyPlace::Header => Place::Header(header_name(&entry.name)?),
            _ if entry.name.is_empty() => return Err("an entry of auth.apply has no name".to_owned()),
            ApplyPlace::Query => Place::Query(entry.name.clone()),
            ApplyPlace::BodyField => Place::BodyField(entry.name.clone()),
        };
        let value = SignText::parse(&entry.value).map_err(|error| format!("auth.apply, {}: {error}", entry.name))?;
        Ok(Self { place, value })
    }
}

/// Adds an entry with its value.
pub(crate) fn apply_entry(request: &mut Rendered, entry: &Entry, value: &str) -> Result<(), ToolError> {
    match &entry.place {
        Place::Header(name) => set_header(request, name.clone(), value),
        Place::Query(name) => {
            append_query(&mut request.url, &format!("{}={}", percent_encode(name), percent_encode(value)));
            Ok(())
        }
        Place::BodyField(name) => add_field(request, name, value),
    }
}

/// Sets a header that other origins must not see.
pub(crate) fn set_header(request: &mut Rendered, name: HeaderName, value: &str) -> Result<(), ToolError> {
    let mut value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| {
        ToolError::unavailable(format!("what auth puts into the header {name} holds a control character"))
            .with_hint("look for a line break at the end of the secret")
    })?;
    value.set_sensitive(true);
    request.headers.insert(name, value);
    Ok(())
}

/// Adds a field to a JSON or form body without changing its other bytes.
fn add_field(request: &mut Rendered, name: &str, value: &str) -> Result<(), ToolError> {
    let kind = request.headers.get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let (is_json, is_form) = (kind.contains("json"), kind.contains("x-www-form-urlencoded"));
    let body = request.body.clone().unwrap_or_default();
    let text = body.trim();
    request.body = Some(if is_form {
        let pair = format!("{}={}", percent_encode(name), percent_encode(value));
        if text.is_empty() { pair } else { format!("{body}&{pair}") }
    } else if let Some(members) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).filter(|_| is_json) {
        let comma = if members.trim().is_empty() { "" } else { "," };
        let (name, value) = (serde_json::Value::from(name), serde_json::Value::from(value));
        format!("{{{members}{comma}{name}:{value}}}")
    } else {
        return Err(ToolError::unavailable(format!(
            "auth can't add the field {name}: the body is not an object or a form"
        ))
        .with_hint("give the tool a JSON object or a form as its bodyTemplate"));
    });
    Ok(())
}
