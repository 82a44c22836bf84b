//! Looks up bundles by id or slug, and tools by bundle, slug and, if there are several, version.

use onetool_state::bundles::{BundleId, BundleStore, Slug, Version};

use onetool_http::ApiError;
use onetool_http::rest::ToolPath;

/// Finds an existing bundle by id or slug.
pub(super) fn bundle(store: &BundleStore, name: &str) -> Result<BundleId, ApiError> {
    find_bundle(store, name)?.ok_or_else(|| {
        ApiError::not_found(format!("there is no bundle '{name}'")).with_hint("`onetool bundles list --all` lists them")
    })
}

/// Finds a bundle by id or slug; an id need not exist yet.
pub(super) fn find_bundle(store: &BundleStore, name: &str) -> Result<Option<BundleId>, ApiError> {
    Ok(store.find_bundle(name)?)
}

/// Finds a tool. Without a version it must have only one.
pub(super) fn tool(store: &BundleStore, bundle: &str, slug: &str, version: Option<&str>) -> Result<ToolPath, ApiError> {
    let id = self::bundle(store, bundle)?;
    let slug: Slug = slug.parse()?;
    if let Some(version) = version {
        return Ok(ToolPath { bundle: id, slug, version: version.parse()? });
    }
    let tools = store.tools_of(id)?;
    let versions: Vec<&Version> =
        tools.iter().filter(|view| view.tool.slug == slug).map(|view| &view.tool.version).collect();
    match versions.as_slice() {
        [] => Err(ApiError::not_found(format!("bundle {bundle} has no tool '{slug}'"))
            .with_hint(format!("`onetool bundles tools list --all {bundle}` lists them"))),
        [one] => Ok(ToolPath { bundle: id, slug, version: (*one).clone() }),
        many => {
            let labels: Vec<&str> = many.iter().map(|version| version.as_str()).collect();
            Err(ApiError::invalid(format!("{slug} has several versions: {}", labels.join(", ")))
                .with_hint("name one of them after the slug"))
        }
    }
}
