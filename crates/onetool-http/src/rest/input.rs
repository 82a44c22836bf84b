//! Reads requests: paths, conditions and bodies, each checked as a whole.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use headers::{ETag, Header, HeaderMapExt as _, IfMatch, IfNoneMatch};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as _;
use onetool_bundles::BundleSource;
use onetool_run::Shared;
use onetool_state::bundles::{BundleId, BundleStore, BundleView, Precondition, Slug, Version, accepted_languages};
use serde::de::DeserializeOwned;

use crate::ApiError;

/// Timeout for receiving a body.
const BODY_PATIENCE: Duration = Duration::from_secs(15);

/// The tool that a path names.
pub struct ToolPath {
    pub bundle: BundleId,
    pub slug: Slug,
    pub version: Version,
}

impl ToolPath {
    /// Resolves a path's segments; the bundle by id or slug. Blocks.
    pub(super) fn find(
        store: &BundleStore,
        (bundle, slug, version): (String, String, String),
    ) -> Result<Self, ApiError> {
        let (slug, version) = (slug.parse()?, version.parse()?);
        Ok(Self { bundle: bundle_id(store, &bundle)?, slug, version })
    }
}

/// Returns the bundle with this id or slug; an id need not exist. Blocks.
pub fn bundle_id(store: &BundleStore, name: &str) -> Result<BundleId, ApiError> {
    store.find_bundle(name)?.ok_or_else(|| ApiError::not_found(format!("there is no bundle '{name}'")))
}

/// Returns the bundle with this id or slug, if this toolbox may see it. Blocks.
pub(super) fn seen_bundle(store: &BundleStore, seen: &Shared, name: &str) -> Result<BundleView, ApiError> {
    let view = store.bundle(bundle_id(store, name)?)?;
    if seen.sees_pack(&view.bundle.slug.identifier()) {
        Ok(view)
    } else {
        Err(ApiError::not_found(format!("there is no bundle {name}")))
    }
}

/// Requests texts as stored: the BCP 47 tag for an undetermined language.
const UNTRANSLATED: &str = "und";

/// Returns the preferred languages, the best first: those of the request, then that of the configuration.
pub(super) fn languages(headers: &HeaderMap, source: &BundleSource) -> Vec<String> {
    let asked = headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if asked.trim().eq_ignore_ascii_case(UNTRANSLATED) {
        return Vec::new();
    }
    let mut languages = accepted_languages(asked);
    languages.extend_from_slice(source.languages());
    languages
}

/// `If-Match` and `If-None-Match` of a change.
pub(super) enum Condition {
    None,
    /// The current state must be one of these.
    Matches(IfMatch),
    /// Nothing may be there yet.
    Absent,
}

impl Condition {
    /// Returns the precondition for the store; `present` reads the tag of the current state.
    pub(super) fn of(self, present: impl FnOnce() -> Option<String>) -> Precondition {
        match self {
            Self::None => Precondition::None,
            Self::Absent => Precondition::Absent,
            Self::Matches(any) if any.is_any() => Precondition::Matches(Vec::new()),
            Self::Matches(tags) => {
                let present =
                    present().filter(|present| entity_tag(present).is_some_and(|tag| tags.precondition_passes(&tag)));
                // No state has an empty tag, so a tag that matches nothing is refused.
                Precondition::Matches(vec![present.unwrap_or_default()])
            }
        }
    }
}

/// Reads the condition of a change.
pub(super) fn condition(headers: &HeaderMap) -> Result<Condition, ApiError> {
    if let Some(tags) = typed::<IfMatch>(headers)? {
        return Ok(Condition::Matches(tags));
    }
    match typed::<IfNoneMatch>(headers)? {
        None => Ok(Condition::None),
        Some(tags) if tags == IfNoneMatch::any() => Ok(Condition::Absent),
        Some(_) => Err(ApiError::invalid("only If-None-Match: * makes sense for a change")),
    }
}

/// Whether the client already has this state.
pub(super) fn is_known(headers: &HeaderMap, etag: &str) -> Result<bool, ApiError> {
    let tags = typed::<IfNoneMatch>(headers)?;
    Ok(tags.zip(entity_tag(etag)).is_some_and(|(tags, etag)| !tags.precondition_passes(&etag)))
}

pub(super) fn entity_tag(etag: &str) -> Option<ETag> {
    format!("\"{etag}\"").parse().ok()
}

fn typed<H: Header>(headers: &HeaderMap) -> Result<Option<H>, ApiError> {
    headers
        .typed_try_get::<H>()
        .map_err(|_| ApiError::invalid(format!("the header {} holds entity tags in double quotes, or *", H::name())))
}

/// Returns the media type of a body, in lower case and without parameters.
pub(super) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Reads a body of at most `limit` bytes.
pub(super) async fn bytes(request: Request, limit: usize) -> Result<Bytes, ApiError> {
    let too_large = || ApiError::too_large(format!("a body has at most {limit} bytes"));
    if request.body().size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let collected = tokio::time::timeout(BODY_PATIENCE, Limited::new(request.into_body(), limit).collect())
        .await
        .map_err(|_| ApiError::timeout("the body did not arrive in time"))?
        .map_err(|error| {
            if error.is::<LengthLimitError>() { too_large() } else { ApiError::invalid("the body could not be read") }
        })?;
    Ok(collected.to_bytes())
}

/// Reads a JSON body of at most `limit` bytes; `None` when it is empty.
pub(super) async fn optional_json<T: DeserializeOwned>(request: Request, limit: usize) -> Result<Option<T>, ApiError> {
    let kind = content_type(request.headers());
    let bytes = bytes(request, limit).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let is_nothing = bytes.trim_ascii() == b"null";
    if kind != "application/json" && !kind.ends_with("+json") {
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
