//! The admin page, compiled in: one document, and three files that it loads when it needs them. The sources are in `web/`.
//!
//! The binary contains only compressed files. The few clients that accept neither encoding get a decompressed copy.

use std::io::Read as _;
use std::sync::LazyLock;

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use flate2::read::GzDecoder;
use serde::Deserialize;

use super::RestState;
use super::input;
use crate::ApiError;

/// A file in each of its encodings.
struct Asset {
    kind: &'static str,
    gzip: &'static [u8],
    brotli: &'static [u8],
}

macro_rules! asset {
    ($kind:literal, $name:literal) => {
        Asset {
            kind: $kind,
            gzip: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/dist/", $name, ".gz")),
            brotli: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/dist/", $name, ".br")),
        }
    };
}

static DOCUMENT: Asset = asset!("text/html; charset=utf-8", "index.html");
static EDITOR: Asset = asset!("text/javascript; charset=utf-8", "editor.js");
static BUNDLES: Asset = asset!("text/javascript; charset=utf-8", "bundles.js");
static WORKER: Asset = asset!("text/javascript; charset=utf-8", "worker.js");

/// The build's description of its files.
#[derive(Deserialize)]
struct Manifest {
    /// The content security policy of the document.
    policy: String,
    /// Changes with the document.
    document: String,
    /// File names that change with the content.
    editor: String,
    bundles: String,
    worker: String,
}

static MANIFEST: LazyLock<Option<Manifest>> = LazyLock::new(|| {
    serde_json::from_str(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/dist/manifest.json"))).ok()
});

/// Caching of a file whose name changes with its content.
const FOREVER: &str = "public, max-age=31536000, immutable";
/// Policy of the lazily loaded files: nothing is allowed.
const FILE_POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

pub(super) fn routes() -> Router<RestState> {
    Router::new().route("/", get(document)).route("/assets/{name}", get(file))
}

async fn document(headers: HeaderMap) -> Result<Response, ApiError> {
    let manifest = manifest()?;
    let (encoding, bytes) = DOCUMENT.encoded(&headers);
    let tag = format!("{}-{}", manifest.document, encoding.unwrap_or("plain"));
    let mut response = if input::is_known(&headers, &tag)? {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        respond(DOCUMENT.kind, encoding, bytes)
    };
    set(&mut response, header::ETAG, &format!("\"{tag}\""));
    set(&mut response, header::CACHE_CONTROL, "no-cache");
    protect(&mut response, &manifest.policy);
    Ok(response)
}

async fn file(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    let manifest = manifest()?;
    let asset = match name {
        name if name == manifest.editor => &EDITOR,
        name if name == manifest.bundles => &BUNDLES,
        name if name == manifest.worker => &WORKER,
        _ => return Err(ApiError::not_found("there is no such file").with_hint("reload the page")),
    };
    let (encoding, bytes) = asset.encoded(&headers);
    let mut response = respond(asset.kind, encoding, bytes);
    set(&mut response, header::CACHE_CONTROL, FOREVER);
    protect(&mut response, FILE_POLICY);
    Ok(response)
}

fn manifest() -> Result<&'static Manifest, ApiError> {
    MANIFEST.as_ref().ok_or_else(|| ApiError::internal("the page was not built"))
}

impl Asset {
    /// Returns the smallest encoding that the client accepts.
    fn encoded(&self, headers: &HeaderMap) -> (Option<&'static str>, Bytes) {
        let accepts = |wanted: &str| {
            let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|value| value.split(',')).any(|part| {
                let mut pieces = part.split(';').map(str::trim);
                pieces.next() == Some(wanted)
                    && !pieces.any(|piece| matches!(piece, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
            })
        };
        if accepts("br") {
            (Some("br"), Bytes::from_static(self.brotli))
        } else if accepts("gzip") {
            (Some("gzip"), Bytes::from_static(self.gzip))
        } else {
            (None, self.plain().into())
        }
    }

    fn plain(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        // The embedded file is complete; a test compares it with the sources' build.
        let _ = GzDecoder::new(self.gzip).read_to_end(&mut plain);
        plain
    }
}

fn respond(kind: &'static str, encoding: Option<&str>, bytes: Bytes) -> Response {
    let mut response = bytes.into_response();
    set(&mut response, header::CONTENT_TYPE, kind);
    if let Some(encoding) = encoding {
        set(&mut response, header::CONTENT_ENCODING, encoding);
    }
    response
}

/// No other page may frame, embed or open this one, and it may load nothing from elsewhere.
fn protect(response: &mut Response, policy: &str) {
    set(response, header::CONTENT_SECURITY_POLICY, policy);
    set(response, header::VARY, "Accept-Encoding");
    set(response, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(response, header::X_FRAME_OPTIONS, "DENY");
    set(response, header::REFERRER_POLICY, "no-referrer");
    set(response, HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(response, HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
}

fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_is_whole() {
        let manifest = manifest().unwrap();
        assert!(
            manifest.policy.contains("default-src 'none'") && !manifest.policy.contains("unsafe"),
            "{}",
            manifest.policy
        );
        let document = DOCUMENT.plain();
        for name in [&manifest.editor, &manifest.bundles, &manifest.worker] {
            assert!(document.windows(name.len()).any(|window| window == name.as_bytes()), "{name} is not loaded");
        }
        let dist = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
        for (asset, name) in
            [(&DOCUMENT, "index.html"), (&EDITOR, "editor.js"), (&BUNDLES, "bundles.js"), (&WORKER, "worker.js")]
        {
            assert!(asset.plain() == std::fs::read(dist.join(name)).unwrap(), "{name} is not what it unpacks to");
        }
    }

    #[test]
    fn clients_get_the_smallest_form_that_they_understand() {
        for (accepted, expected) in [
            ("gzip, deflate, br, zstd", Some("br")),
            ("gzip", Some("gzip")),
            ("br;q=0, gzip;q=0.5", Some("gzip")),
            ("identity", None),
            ("", None),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
            assert_eq!(DOCUMENT.encoded(&headers).0, expected, "{accepted}");
        }
    }
}
