//! Reading requests: paths, queries, conditions and bodies, each checked as a whole.

use std::str::FromStr;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, header};
use onetool_state::bundles::{BundleId, Disabled, NameError, Precondition, Slug, Version};
use serde::de::DeserializeOwned;

use super::error::ApiError;

/// How long a body may take to arrive.
const BODY_PATIENCE: Duration = Duration::from_secs(15);
pub const DEFAULT_PAGE: usize = 50;
pub const LARGEST_PAGE: usize = 256;
/// How many values a list in a query may hold.
const LIST_ITEMS: usize = 256;

/// The tool that a path names.
pub struct ToolPath {
    pub bundle: BundleId,
    pub slug: Slug,
    pub version: Version,
}

impl TryFrom<(String, String, String)> for ToolPath {
    type Error = ApiError;

    fn try_from((bundle, slug, version): (String, String, String)) -> Result<Self, ApiError> {
        Ok(Self { bundle: bundle.parse()?, slug: slug.parse()?, version: version.parse()? })
    }
}

/// The query's parameters. Each is taken once; what is left over at the end is not known.
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(super) fn parse(query: Option<&str>) -> Result<Self, ApiError> {
        let pairs = serde_urlencoded_pairs(query.unwrap_or_default())?;
        Ok(Self(pairs))
    }

    fn take(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        let Some(at) = self.0.iter().position(|(one, _)| one == name) else { return Ok(None) };
        let (_, value) = self.0.swap_remove(at);
        if self.0.iter().any(|(one, _)| one == name) {
            return Err(ApiError::invalid(format!("the parameter {name} stands more than once")));
        }
        Ok(Some(value))
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        self.take(name)
    }

    /// Values separated by commas, or the parameter repeated.
    pub(super) fn list<T: FromStr<Err = NameError>>(&mut self, name: &str) -> Result<Vec<T>, ApiError> {
        self.texts(name)?.iter().map(|item| Ok(item.parse::<T>()?)).collect()
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<String>, ApiError> {
        let mut items = Vec::new();
        self.0.retain(|(one, value)| {
            if one == name {
                items.extend(value.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned));
            }
            one != name
        });
        if items.len() > LIST_ITEMS {
            return Err(ApiError::invalid(format!("{name} holds at most {LIST_ITEMS} values")));
        }
        Ok(items)
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<bool, ApiError> {
        match self.take(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(ApiError::invalid(format!("{name} is true or false"))),
        }
    }

    pub(super) fn disabled(&mut self) -> Result<Disabled, ApiError> {
        Ok(if self.flag("includeDisabled")? { Disabled::Shown } else { Disabled::Hidden })
    }

    pub(super) fn page_size(&mut self, name: &str) -> Result<usize, ApiError> {
        match self.take(name)?.map(|text| text.parse::<i32>()) {
            None => Ok(DEFAULT_PAGE),
            Some(Ok(size)) if size > 0 => Ok(usize::try_from(size).unwrap_or(LARGEST_PAGE).min(LARGEST_PAGE)),
            Some(_) => Err(ApiError::invalid(format!("{name} is a whole number from 1"))),
        }
    }

    pub(super) fn end(self) -> Result<(), ApiError> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(ApiError::invalid(format!("there is no parameter '{name}'"))),
        }
    }
}

fn serde_urlencoded_pairs(query: &str) -> Result<Vec<(String, String)>, ApiError> {
    let uri: axum::http::Uri = format!("/?{query}").parse().map_err(|_| ApiError::invalid("the query is not valid"))?;
    axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri)
        .map(|query| query.0)
        .map_err(|error| ApiError::invalid(format!("the query is not valid: {error}")))
}

/// `If-Match` and `If-None-Match` of a change.
pub(super) fn precondition(headers: &HeaderMap) -> Result<Precondition, ApiError> {
    if headers.contains_key(header::IF_MATCH) {
        let tags = entity_tags(headers, &header::IF_MATCH)?;
        return Ok(match tags {
            Tags::Any => Precondition::Matches(Vec::new()),
            // A weak tag never is a strong match.
            Tags::Some(tags) if tags.is_empty() => Precondition::Matches(vec![String::new()]),
            Tags::Some(tags) => Precondition::Matches(tags),
        });
    }
    if headers.contains_key(header::IF_NONE_MATCH) {
        return match entity_tags(headers, &header::IF_NONE_MATCH)? {
            Tags::Any => Ok(Precondition::Absent),
            Tags::Some(_) => Err(ApiError::invalid("only If-None-Match: * makes sense for a change")),
        };
    }
    Ok(Precondition::None)
}

/// Whether a reader has this state already.
pub(super) fn is_known(headers: &HeaderMap, etag: &str) -> Result<bool, ApiError> {
    if !headers.contains_key(header::IF_NONE_MATCH) {
        return Ok(false);
    }
    Ok(match entity_tags(headers, &header::IF_NONE_MATCH)? {
        Tags::Any => true,
        Tags::Some(tags) => tags.iter().any(|tag| tag == etag),
    })
}

enum Tags {
    Any,
    Some(Vec<String>),
}

fn entity_tags(headers: &HeaderMap, name: &axum::http::HeaderName) -> Result<Tags, ApiError> {
    let wrong = || ApiError::invalid(format!("the header {name} holds entity tags in double quotes, or *"));
    let mut tags = Vec::new();
    for value in headers.get_all(name) {
        let text = value.to_str().map_err(|_| wrong())?.trim();
        if text == "*" {
            return Ok(Tags::Any);
        }
        for tag in text.split(',').map(str::trim) {
            if tag.starts_with("W/\"") && name == header::IF_MATCH {
                continue;
            }
            let tag = tag.strip_prefix("W/").unwrap_or(tag);
            let tag = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).ok_or_else(wrong)?;
            tags.push(tag.to_owned());
        }
    }
    Ok(Tags::Some(tags))
}

/// A JSON body of at most `limit` bytes; `None` when it is empty.
pub(super) async fn optional_json<T: DeserializeOwned>(request: Request, limit: usize) -> Result<Option<T>, ApiError> {
    let content_type = request.headers().get(header::CONTENT_TYPE).cloned();
    let bytes = tokio::time::timeout(BODY_PATIENCE, axum::body::to_bytes(request.into_body(), limit))
        .await
        .map_err(|_| ApiError::timeout("the body did not arrive in time"))?
        .map_err(|error| {
            let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
            while let Some(cause) = source {
                if cause.to_string().contains("length limit") {
                    return ApiError::too_large(format!("a body has at most {limit} bytes"));
                }
                source = cause.source();
            }
            ApiError::invalid("the body could not be read")
        })?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let is_nothing = bytes.trim_ascii() == b"null";
    let is_json = content_type.as_ref().and_then(|value| value.to_str().ok()).is_some_and(|value| {
        let kind = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        kind == "application/json" || kind.ends_with("+json")
    });
    if !is_json {
        return Err(ApiError::media_type("a body must have the Content-Type application/json"));
    }
    if is_nothing {
        return Ok(None);
    }
    super::body::from_bytes(&bytes).map(Some)
}

pub(super) async fn json<T: DeserializeOwned>(request: Request, limit: usize) -> Result<T, ApiError> {
    optional_json(request, limit).await?.ok_or_else(|| ApiError::invalid("a JSON body is needed"))
}
