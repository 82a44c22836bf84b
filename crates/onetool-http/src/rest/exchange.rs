//! Exports bundles as archives, and imports archives and third-party documents.

use std::str::FromStr as _;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, Path, RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use onetool_bundles::{
    ArchiveDocuments, Format, ImportMode, ImportOptions, OnConflict, StoredBundle, Unexpressed, export_bundle, of_json,
    open_archive, read_document, store_bundle, store_document,
};
use onetool_sdk::QualifiedName;
use onetool_state::bundles::{Bundle, Slug, Tool, Version};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::RestState;
use super::bundles::blocking;
use super::input;
use super::model::{BundleReply, ErrorReply, check_bundle, check_tool};
use super::parameters::{BundlePlace, BundleSegment};
use super::query;
use super::routes::Routes;
use crate::{ApiError, Bundles, Identity};

pub(super) fn routes() -> Routes {
    Routes::default().read(routes!(export)).admin(routes!(import))
}

/// Exports a bundle and its tools as a ZIP archive. The same content gives the same bytes; secrets are not included.
#[utoipa::path(get, path = "/tools/bundles/{bundleID}/export", tag = "bundles", params(BundlePlace), responses(
    (status = 200, description = "the archive", content_type = "application/zip", body = Vec<u8>),
    (status = 400, body = ErrorReply),
    (status = 404, body = ErrorReply),
))]
async fn export(
    State(state): State<RestState>,
    Extension(identity): Extension<Arc<Identity>>,
    Path(id): BundleSegment,
) -> Result<Response, ApiError> {
    let bundles = state.served.bundles.clone();
    let (slug, bytes) = blocking(move || {
        let seen = state.tools(&identity);
        let bundle = input::seen_bundle(&bundles.store, &seen, &id)?.bundle;
        let is_seen = |tool: &Tool| seen.sees(&QualifiedName::new(bundle.slug.identifier(), tool.slug.identifier()));
        archive_of(&bundles, &bundle, is_seen)
    })
    .await?;
    let name = if slug.is_ascii() { slug } else { "bundle".to_owned() };
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}.zip\"")) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}

/// Returns a bundle as an archive, with its slug. Blocks.
pub fn archive(bundles: &Bundles, name: &str) -> Result<(String, Vec<u8>), ApiError> {
    let id = input::bundle_id(&bundles.store, name)?;
    let view = bundles.store.bundle(id)?;
    archive_of(bundles, &view.bundle, |_| true)
}

/// Returns an archive with only the tools for which `is_seen` holds.
fn archive_of(
    bundles: &Bundles,
    bundle: &Bundle,
    is_seen: impl Fn(&Tool) -> bool,
) -> Result<(String, Vec<u8>), ApiError> {
    let tools = bundles.store.tools_of(bundle.id)?.into_iter().map(|view| view.tool);
    let tools: Vec<Tool> = tools.filter(|tool| is_seen(tool)).collect();
    let bytes = export_bundle(bundle, &tools, bundles.engine.secrets()).map_err(ApiError::too_large)?;
    Ok((bundle.slug.to_string(), bytes))
}

/// A document to import, or where it is.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportBody {
    /// `openapi`, `postman`, `arazzo` or `curl`; detected when absent.
    #[serde(default)]
    pub format: Option<String>,
    /// The document: JSON, or text (YAML, a curl command).
    #[serde(default)]
    #[schema(value_type = Option<Value>)]
    pub document: Option<Value>,
    /// Where the document is; its host must be in `http.allowed_hosts`.
    #[serde(default)]
    pub url: Option<String>,
    /// A curl command.
    #[serde(default)]
    pub curl: Option<String>,
    /// The bundle's slug; derived from the document's title when absent.
    #[serde(default)]
    pub slug: Option<String>,
    /// The version of the tools.
    #[serde(default)]
    pub version: Option<String>,
    /// Only operations with one of these tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Only operations whose name or path matches one of these; `*` matches anything.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// Address of the API, if the document names none or another one is wanted.
    #[serde(default)]
    pub base_url: Option<String>,
    /// `fail`, `skip` or `new-version`.
    #[serde(default)]
    pub on_conflict: Option<String>,
    /// Show what would be stored, and store nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// The outcome of an import.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportReply {
    pub ok: bool,
    /// Absent for a dry run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bundle: Option<BundleReply>,
    pub slug: String,
    pub is_new: bool,
    pub tools: Vec<ImportedRow>,
    /// What could not be expressed, and why.
    pub unexpressed: Vec<UnexpressedRow>,
    /// Secrets that must be set before the tools work.
    pub missing_secrets: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// One tool of an import.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportedRow {
    pub slug: String,
    pub version: String,
    /// `created`, `newVersion` or `skipped`.
    pub outcome: String,
}

/// A part of a document that no tool can express.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnexpressedRow {
    pub what: String,
    pub reason: String,
}

/// An import, from the REST API or the command line.
pub enum ImportRequest {
    Archive { bytes: Vec<u8>, slug: Option<String>, on_conflict: OnConflict, mode: ImportMode },
    Document(Box<ImportBody>),
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct ImportQuery {
    /// for an archive: fail, skip or new-version
    #[serde(default, deserialize_with = "query::parsed")]
    #[param(value_type = Option<String>)]
    on_conflict: OnConflict,
    /// for an archive: the bundle's slug, where another is meant
    slug: Option<String>,
    /// for an archive: show what would be stored
    #[serde(default)]
    dry_run: bool,
}

/// Imports a bundle: an archive (`application/zip`), or a document or its address (`application/json`). All of it is stored,
/// or nothing.
#[utoipa::path(post, path = "/tools/bundles/import", tag = "bundles", request_body(content(
    (ImportBody = "application/json"), (Vec<u8> = "application/zip"),
)), params(ImportQuery), responses(
    (status = 200, description = "nothing new, or a dry run", body = ImportReply),
    (status = 201, body = ImportReply),
    (status = 400, description = "the document or archive is not valid", body = ErrorReply),
    (status = 403, description = "the host of the address is not allowed", body = ErrorReply),
    (status = 409, description = "the bundle or tool already exists", body = ErrorReply),
    (status = 413, body = ErrorReply),
    (status = 415, body = ErrorReply),
    (status = 502, description = "the document can't be fetched", body = ErrorReply),
    (status = 504, body = ErrorReply),
))]
async fn import(
    State(state): State<RestState>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ApiError> {
    let ImportQuery { on_conflict, slug, dry_run } = query::parse(query.as_deref())?;
    let mode = if dry_run { ImportMode::Show } else { ImportMode::Store };
    let kind = input::content_type(request.headers());
    let settings = &state.served.bundles.imports;
    let request = match kind.as_str() {
        "application/zip" | "application/x-zip-compressed" => ImportRequest::Archive {
            bytes: input::bytes(request, settings.max_archive_bytes).await?.to_vec(),
            slug,
            on_conflict,
            mode,
        },
        // As JSON text a document is slightly larger than as a file.
        _ => ImportRequest::Document(Box::new(input::json(request, settings.max_document_bytes * 2).await?)),
    };
    let reply = run(&state.served.bundles, request).await?;
    let is_stored = !reply.dry_run && reply.tools.iter().any(|tool| tool.outcome != "skipped");
    let status = if is_stored { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(reply)).into_response())
}

/// Runs an import, for the REST API and the command line alike.
pub async fn run(bundles: &Bundles, request: ImportRequest) -> Result<ImportReply, ApiError> {
    match request {
        ImportRequest::Archive { bytes, slug, on_conflict, mode } => {
            let bundles = bundles.clone();
            blocking(move || {
                let documents = open_archive(&bytes, &bundles.imports).map_err(ApiError::invalid)?;
                check_documents(&documents)?;
                let mut archive = documents.read().map_err(ApiError::invalid)?;
                if let Some(slug) = slug {
                    archive.bundle.slug = slug.parse()?;
                }
                let (slug, secrets) = (archive.bundle.slug.clone(), archive.bundle.secrets.clone());
                let stored = store_bundle(&bundles.store, archive.bundle, archive.tools, on_conflict, mode)?;
                Ok(reply(&bundles, &slug, &secrets, stored, Vec::new()))
            })
            .await
        }
        ImportRequest::Document(body) => document(bundles, *body).await,
    }
}

/// Checks an archive's documents as strictly as request bodies.
fn check_documents(documents: &ArchiveDocuments) -> Result<(), ApiError> {
    let (name, bundle) = documents.bundle();
    check_bundle(bundle).map_err(|error| error.in_file(name))?;
    documents.tools().try_for_each(|(name, tool)| check_tool(tool).map_err(|error| error.in_file(name)))
}

async fn document(bundles: &Bundles, body: ImportBody) -> Result<ImportReply, ApiError> {
    let format = match body.format.as_deref() {
        None => None,
        Some("openapi") => Some(Format::OpenApi),
        Some("postman") => Some(Format::Postman),
        Some("arazzo") => Some(Format::Arazzo),
        Some("curl") => Some(Format::Curl),
        Some(_) => return Err(ApiError::invalid("format is openapi, postman, arazzo or curl").at("/format")),
    };
    let on_conflict = match body.on_conflict.as_deref() {
        None => OnConflict::default(),
        Some(text) => OnConflict::from_str(text).map_err(|error| ApiError::invalid(error).at("/onConflict"))?,
    };
    let options = ImportOptions {
        slug: body.slug.as_deref().map(str::parse::<Slug>).transpose()?,
        version: body.version.as_deref().map(str::parse::<Version>).transpose()?,
        tags: body.tags,
        patterns: body.patterns,
        base_url: body.base_url,
        document_url: body.url.clone(),
    };
    let mode = if body.dry_run { ImportMode::Show } else { ImportMode::Store };
    let limit = bundles.imports.max_document_bytes;
    let (content, format) = match (body.document, body.curl, body.url) {
        (Some(document), None, None) => (document, format),
        (None, Some(line), None) => (Value::from(line), Some(Format::Curl)),
        (None, None, Some(url)) => (Value::from(bundles.engine.fetch(&url, limit).await?), format),
        _ => return Err(ApiError::invalid("give one of document, url and curl")),
    };
    let bundles = bundles.clone();
    blocking(move || {
        let imported = match &content {
            Value::String(text) => read_document(text, format, &options, &bundles.imports),
            json => of_json(json, format, &options, &bundles.imports),
        }
        .map_err(ApiError::invalid)?;
        drop(content);
        let (slug, secrets) = (imported.bundle.slug.clone(), imported.bundle.secrets.clone());
        let (stored, unexpressed) = store_document(&bundles.store, &bundles.engine, imported, on_conflict, mode)?;
        Ok(reply(&bundles, &slug, &secrets, stored, unexpressed))
    })
    .await
}

fn reply(
    bundles: &Bundles,
    slug: &Slug,
    secrets: &[String],
    stored: StoredBundle,
    unexpressed: Vec<Unexpressed>,
) -> ImportReply {
    let is_missing = |name: &&String| bundles.engine.secrets().get(slug.as_str(), name).is_none();
    let missing_secrets: Vec<String> = secrets.iter().filter(is_missing).cloned().collect();
    let row = |tool: &onetool_bundles::StoredTool| ImportedRow {
        slug: tool.slug.to_string(),
        version: tool.version.to_string(),
        outcome: serde_json::to_value(tool.outcome)
            .ok()
            .and_then(|outcome| outcome.as_str().map(str::to_owned))
            .unwrap_or_default(),
    };
    ImportReply {
        ok: true,
        bundle: stored.view.as_ref().map(BundleReply::from),
        slug: slug.to_string(),
        is_new: stored.is_new,
        tools: stored.tools.iter().map(row).collect(),
        unexpressed: unexpressed.into_iter().map(|one| UnexpressedRow { what: one.what, reason: one.reason }).collect(),
        missing_secrets,
        dry_run: stored.view.is_none(),
    }
}
