//! Parameters of paths and queries that several routes share. A query's struct is also what is read ([`super::query`]);
//! the segments of a path are only described here, and read by [`super::input`].

use axum::extract::Path;
use onetool_state::bundles::Disabled;
use serde::Deserialize;
use utoipa::IntoParams;

use super::query::PageSize;

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
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct BundleListQuery {
    /// Only these, separated by commas.
    #[serde(default, rename = "bundleIDs")]
    #[param(explode = false)]
    pub(super) bundle_ids: Vec<String>,
    #[serde(default)]
    pub(super) include_disabled: bool,
    /// Sizes above 256 count as 256.
    #[serde(default)]
    #[param(value_type = u32, minimum = 1, default = 50)]
    pub(super) page_size: PageSize,
    pub(super) page_token: Option<String>,
}

/// Filters of the list of tools.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct ToolListQuery {
    /// Tools with any of these, separated by commas.
    #[serde(default)]
    #[param(explode = false)]
    pub(super) tags: Vec<String>,
    /// Only tools of these bundles, separated by commas.
    #[serde(default, rename = "bundleIDs")]
    #[param(explode = false)]
    pub(super) bundle_ids: Vec<String>,
    #[serde(default)]
    pub(super) include_disabled: bool,
    /// An upper bound; sizes above 256 count as 256.
    #[serde(default)]
    #[param(value_type = u32, minimum = 1, default = 50)]
    pub(super) recommended_page_size: PageSize,
    pub(super) page_token: Option<String>,
}

/// What to search for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct SearchQuery {
    /// Text without letters and digits finds nothing.
    #[param(min_length = 1, max_length = 200)]
    pub(super) q: String,
    #[serde(default)]
    pub(super) include_disabled: bool,
    /// Sizes above 256 count as 256.
    #[serde(default)]
    #[param(value_type = u32, minimum = 1, default = 50)]
    pub(super) page_size: PageSize,
    pub(super) page_token: Option<String>,
}

/// Whether a call is made.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub struct InvokeQuery {
    /// Show the call instead of making it.
    #[serde(default)]
    pub(super) dry_run: bool,
}

pub(super) fn disabled(include: bool) -> Disabled {
    if include { Disabled::Shown } else { Disabled::Hidden }
}
