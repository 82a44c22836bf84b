//! Resolves references. They stay inside the document, or name the meta-schema of a draft.

use percent_encoding::percent_decode_str;
use serde_json::Value as Json;

use super::node::ResourceId;
use super::scan::{Context, Document, address};
use super::{Draft, Invalid, uri};

/// The target of a reference.
pub(super) enum Target<'s> {
    Schema {
        schema: &'s Json,
        context: Context,
        /// The name of the `$dynamicAnchor` through which it was found.
        dynamic_anchor: Option<&'s str>,
    },
    MetaSchema(Draft),
}

/// Resolves `reference` from a schema at `from`; fails with a reason.
pub(super) fn resolve<'s>(document: &Document<'s>, reference: &'s str, from: Context) -> Result<Target<'s>, String> {
    let (place, fragment) = reference.rsplit_once('#').unwrap_or((reference, ""));
    let resource = if place.is_empty() {
        from.resource
    } else {
        let base = &document.resources[from.resource as usize].uri;
        let uri = uri::resolve(base, place);
        match document.by_uri.get(&uri) {
            Some(resource) => *resource,
            None if fragment.is_empty() => {
                return Draft::named(&uri).map(Target::MetaSchema).ok_or_else(|| unknown_resource(reference));
            }
            None => return Err(unknown_resource(reference)),
        }
    };
    let root = &document.resources[resource as usize];
    if fragment.is_empty() {
        return Ok(Target::Schema { schema: root.root, context: root.context, dynamic_anchor: None });
    }
    let decoded = percent_decode_str(fragment)
        .decode_utf8()
        .map_err(|_| format!("The reference '{reference}' is not valid UTF-8"))?;
    if decoded.starts_with('/') {
        return follow(document, resource, &decoded).ok_or_else(|| format!("Pointer '{decoded}' does not exist"));
    }
    let anchor = document
        .anchors
        .get_key_value(&(resource, fragment))
        .ok_or_else(|| format!("Anchor '{fragment}' does not exist"))?;
    let ((_, name), anchor) = anchor;
    let dynamic_anchor = anchor.is_dynamic.then_some(*name);
    Ok(Target::Schema { schema: anchor.schema, context: anchor.context, dynamic_anchor })
}

fn unknown_resource(reference: &str) -> String {
    format!("Resource '{reference}' is not part of the schema, and none is fetched")
}

/// Fails for the first reference to a missing resource, even if nothing needs it.
pub(super) fn check_outward(document: &Document<'_>) -> Result<(), Invalid> {
    for (reference, context, pointer) in &document.outward {
        let place = reference.split('#').next().unwrap_or_default();
        let uri = uri::resolve(&document.resources[context.resource as usize].uri, place);
        if !place.is_empty() && !document.by_uri.contains_key(&uri) && Draft::named(&uri).is_none() {
            return Err(Invalid { pointer: pointer.clone(), reason: unknown_resource(reference) });
        }
    }
    Ok(())
}

/// Follows a JSON pointer, which may lead into another resource.
fn follow<'s>(document: &Document<'s>, resource: ResourceId, pointer: &str) -> Option<Target<'s>> {
    let root = &document.resources[resource as usize];
    let (mut schema, mut context) = (root.root, root.context);
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        schema = match schema {
            Json::Object(object) => object.get(&token)?,
            Json::Array(items) => items.get(index(&token)?)?,
            _ => return None,
        };
        if let Some(known) = document.places.get(&address(schema)) {
            context = *known;
        }
    }
    Some(Target::Schema { schema, context, dynamic_anchor: None })
}

fn index(token: &str) -> Option<usize> {
    let is_plain = token == "0" || !token.starts_with(['0', '+']);
    if is_plain { token.parse().ok() } else { None }
}
