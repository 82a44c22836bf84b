//! Parameters of paths and queries, only for the OpenAPI document: [`super::input`] parses requests.

use axum::extract::Path;
use utoipa::IntoParams;

// Aliases, because utoipa describes a plain `Path` once more, without its pattern.
pub(super) type BundleSegment = Path<String>;
pub(super) type ToolSegments = Path<(String, String, String)>;

/// Which bundle.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it only describes; a BundleId is read")]
pub struct BundlePlace {
    /// A UUIDv7, or the slug of an existing bundle.
    #[param(
        rename = "bundleID",
        pattern = r"^[\p{L}\p{Nd}-]{1,64}$",
        example = "018faf50-b7b6-7a01-9a05-a22a6e0af101"
    )]
    bundle_id: String,
}

/// Which version of which tool of a bundle.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "it only describes; input::ToolPath reads")]
pub struct ToolPlace {
    /// letters, digits and dashes
    #[param(rename = "toolSlug", pattern = r"^[\p{L}\p{Nd}-]{1,64}$")]
    tool_slug: String,
    /// letters, digits, dots and dashes
    #[param(pattern = r"^[\p{L}\p{Nd}.-]{1,64}$")]
    version: String,
}

/// Filters of the list of bundles.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes; input::Parameters reads")]
pub struct BundleListQuery {
    /// Only these, separated by commas.
    #[param(rename = "bundleIDs", explode = false)]
    bundle_ids: Option<Vec<String>>,
    #[param(rename = "includeDisabled")]
    include_disabled: Option<bool>,
    /// Sizes above 256 count as 256.
    #[param(rename = "pageSize", minimum = 1, default = 50)]
    page_size: Option<u32>,
    #[param(rename = "pageToken")]
    page_token: Option<String>,
}

/// Filters of the list of tools.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes; input::Parameters reads")]
pub struct ToolListQuery {
    /// Tools with any of these, separated by commas.
    #[param(explode = false)]
    tags: Option<Vec<String>>,
    /// Only tools of these bundles, separated by commas.
    #[param(rename = "bundleIDs", explode = false)]
    bundle_ids: Option<Vec<String>>,
    #[param(rename = "includeDisabled")]
    include_disabled: Option<bool>,
    /// An upper bound; sizes above 256 count as 256.
    #[param(rename = "recommendedPageSize", minimum = 1, default = 50)]
    recommended_page_size: Option<u32>,
    #[param(rename = "pageToken")]
    page_token: Option<String>,
}

/// What to search for.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes; input::Parameters reads")]
pub struct SearchQuery {
    /// Text without letters and digits finds nothing.
    #[param(min_length = 1, max_length = 200)]
    q: String,
    #[param(rename = "includeDisabled")]
    include_disabled: Option<bool>,
    /// Sizes above 256 count as 256.
    #[param(rename = "pageSize", minimum = 1, default = 50)]
    page_size: Option<u32>,
    #[param(rename = "pageToken")]
    page_token: Option<String>,
}
