//! Paginated lists: one call requests page after page and returns all items.
//!
//! Pages, items and bytes of a call are limited. A truncated list is reported in the call's report, and in the value
//! itself if the tool asks for an envelope.

use std::sync::Arc;

use http::header::LINK;
use onetool_sdk::{CallContext, Cut, PageReport, Progress, ToolError};
use onetool_state::bundles::{PageKind, PagePlace, PageRule, ResponseEncoding};
use reqwest::Url;
use serde_json::{Value as Json, json};
use serde_json_path::JsonPath;

use super::body::Body;
use super::engine::HttpEngine;
use super::exchange::{Reading, Trip};
use super::extract::Extract;
use super::limits::HttpSettings;
use super::reply::{self, Reply, host_of, require_success, upstream};
use super::request::Rendered;
use super::template::percent_encode;

/// A parsed `paginate` block.
#[derive(Debug)]
pub(crate) struct Pages {
    next: Next,
    items: Option<JsonPath>,
    max_pages: Option<u32>,
    max_items: Option<u32>,
    envelope: bool,
}

#[derive(Debug)]
enum Next {
    Cursor { cursor: JsonPath, parameter: Parameter },
    Number { parameter: Parameter, size: Option<(Parameter, u32)>, from: u64, counts: Counting },
    Link,
}

/// What the page parameter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counting {
    Pages,
    Items,
}

#[derive(Debug)]
struct Parameter {
    name: String,
    place: PagePlace,
}

impl Pages {
    pub(crate) fn compile(
        rule: &PageRule,
        body: &Body,
        encoding: ResponseEncoding,
        extract: &Extract,
    ) -> Result<Self, String> {
        if encoding != ResponseEncoding::Json || matches!(extract, Extract::Pattern(_)) {
            return Err("paginate needs replies of JSON".to_owned());
        }
        for (name, number) in [("maxPages", rule.max_pages), ("maxItems", rule.max_items)] {
            if number == Some(0) {
                return Err(format!("paginate.{name} must be at least 1"));
            }
        }
        let path = |text: &str, name: &str| {
            JsonPath::parse(text).map_err(|error| format!("paginate.{name} '{text}': {error}"))
        };
        let parameter = |name: &str, place: PagePlace| {
            if name.is_empty() {
                return Err("paginate.param is missing".to_owned());
            }
            if place == PagePlace::Body && !matches!(body, Body::Json(_)) {
                return Err("paginate.in is body, but the body is not JSON".to_owned());
            }
            Ok(Parameter { name: name.to_owned(), place })
        };
        let size = |name: &Option<String>, size: Option<u32>, place| match (name, size) {
            (_, Some(0)) => Err("paginate.size must be at least 1".to_owned()),
            (Some(name), Some(size)) => Ok(Some((parameter(name, place)?, size))),
            (None, None) => Ok(None),
            _ => Err("paginate.sizeParam and paginate.size belong together".to_owned()),
        };
        let next = match &rule.kind {
            PageKind::Cursor { cursor, param, place } => {
                Next::Cursor { cursor: path(cursor, "cursor")?, parameter: parameter(param, *place)? }
            }
            PageKind::Page { param, start, size_param, size: number, place } => Next::Number {
                parameter: parameter(param, *place)?,
                size: size(size_param, *number, *place)?,
                from: *start,
                counts: Counting::Pages,
            },
            PageKind::Offset { param, size_param, size: number, place } => Next::Number {
                parameter: parameter(param, *place)?,
                size: size(size_param, *number, *place)?,
                from: 0,
                counts: Counting::Items,
            },
            PageKind::Link => Next::Link,
        };
        Ok(Self {
            next,
            items: (!rule.items.is_empty()).then(|| path(&rule.items, "items")).transpose()?,
            max_pages: rule.max_pages,
            max_items: rule.max_items,
            envelope: rule.envelope,
        })
    }

    /// Builds the request for the first page.
    fn first(&self, request: &Rendered) -> Result<Rendered, ToolError> {
        let mut request = request.clone();
        if let Next::Number { parameter, size, from, .. } = &self.next {
            parameter.set(&mut request, &Json::from(*from))?;
            if let Some((parameter, size)) = size {
                parameter.set(&mut request, &Json::from(*size))?;
            }
        }
        Ok(request)
    }

    /// Returns how to request the next page; `None` after the last one.
    fn next(&self, url: &Url, reply: &Reply, json: &Json, so_far: &SoFar) -> Result<Option<Place>, ToolError> {
        match &self.next {
            Next::Cursor { cursor, .. } => {
                let found = cursor.query(json).first().cloned();
                let is_end = |found: &Json| match found {
                    Json::Null | Json::Bool(false) => true,
                    Json::String(text) => text.is_empty(),
                    _ => false,
                };
                Ok(found.filter(|found| !is_end(found)).map(Place::Parameter))
            }
            Next::Number { size, from, counts, .. } => {
                let is_last =
                    so_far.last_page == 0 || size.as_ref().is_some_and(|(_, size)| so_far.last_page < *size as usize);
                let number = match counts {
                    Counting::Pages => from + u64::from(so_far.pages),
                    Counting::Items => so_far.items.len() as u64,
                };
                Ok((!is_last).then(|| Place::Parameter(Json::from(number))))
            }
            Next::Link => {
                let links = reply.headers.get_all(LINK).iter().filter_map(|link| link.to_str().ok());
                let Some(target) = links.flat_map(next_link).next() else { return Ok(None) };
                let target = url.join(&target).map_err(|_| {
                    upstream(
                        Some(reply.status),
                        &format!("{} links to a next page that is not an address", host_of(url)),
                    )
                })?;
                if target.origin() != url.origin() {
                    return Err(ToolError::denied(format!(
                        "{} has its next page at another host, {}",
                        host_of(url),
                        host_of(&target)
                    )));
                }
                Ok(Some(Place::Address(target)))
            }
        }
    }

    /// Items of one page.
    fn items_of(&self, extract: &Extract, json: Json) -> Result<Vec<Json>, ToolError> {
        let found = match &self.items {
            Some(path) => {
                let nodes: Vec<Json> = path.query(&json).iter().map(|node| (*node).clone()).collect();
                match <[Json; 1]>::try_from(nodes) {
                    // `$.items` finds one list, `$.items[*]` its items.
                    Ok([Json::Array(items)]) => return Ok(items),
                    Ok([Json::Null]) => return Ok(Vec::new()),
                    Ok([one]) => return Ok(vec![one]),
                    Err(nodes) => return Ok(nodes),
                }
            }
            None => extract.from_value(json),
        };
        match found {
            Json::Array(items) => Ok(items),
            Json::Null => Ok(Vec::new()),
            _ => Err(upstream(None, "a page is not a list")
                .with_hint("say with paginate.items where its items are, as in $.items")),
        }
    }
}

/// Where the next page is.
#[derive(Debug, Clone, PartialEq)]
enum Place {
    Parameter(Json),
    Address(Url),
}

impl Place {
    fn shown(&self) -> Json {
        match self {
            Self::Parameter(value) => value.clone(),
            Self::Address(url) => Json::from(url.as_str()),
        }
    }
}

#[derive(Default)]
struct SoFar {
    items: Vec<Json>,
    pages: u32,
    bytes: usize,
    /// How many items the last page had.
    last_page: usize,
}

impl Parameter {
    fn set(&self, request: &mut Rendered, value: &Json) -> Result<(), ToolError> {
        match self.place {
            PagePlace::Query => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                set_query(&mut request.url, &self.name, &text);
            }
            PagePlace::Body => {
                let body = request.body.as_deref().unwrap_or("{}");
                let mut json: Json = serde_json::from_str(body).unwrap_or_default();
                let Some(members) = json.as_object_mut() else {
                    return Err(ToolError::arguments("the body is not an object, so it can't name a page"));
                };
                members.insert(self.name.clone(), value.clone());
                request.body = Some(json.to_string());
            }
        }
        Ok(())
    }
}

/// Sets one query parameter, in place if it is already there.
fn set_query(url: &mut Url, name: &str, value: &str) {
    let (name, value) = (percent_encode(name), percent_encode(value));
    let pair = format!("{name}={value}");
    let mut pairs: Vec<&str> = url.query().unwrap_or_default().split('&').filter(|one| !one.is_empty()).collect();
    let is_named = |one: &&str| one.split('=').next() == Some(name.as_str());
    match pairs.iter().position(is_named) {
        Some(at) => pairs[at] = &pair,
        None => pairs.push(&pair),
    }
    let query = pairs.join("&");
    url.set_query(Some(&query));
}

/// The targets of `rel="next"` in a `Link` header (RFC 8288).
fn next_link(header: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = header;
    while let Some((_, after)) = rest.split_once('<') {
        let Some((target, after)) = after.split_once('>') else { break };
        // The parameters end at a comma outside quotes.
        let mut is_quoted = false;
        let end = after.char_indices().find(|(_, c)| {
            is_quoted ^= *c == '"';
            *c == ',' && !is_quoted
        });
        let (parameters, more) = after.split_at(end.map_or(after.len(), |(at, _)| at));
        let is_next = parameters.split(';').any(|parameter| {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let value = value.trim().trim_matches('"');
            name.trim().eq_ignore_ascii_case("rel")
                && value.split_whitespace().any(|rel| rel.eq_ignore_ascii_case("next"))
        });
        if is_next {
            found.push(target.trim().to_owned());
        }
        rest = more;
    }
    found
}

impl HttpEngine {
    /// Requests page after page.
    pub(crate) async fn all_pages(
        self: &Arc<Self>,
        trip: &mut Trip<'_>,
        pages: &Pages,
        request: &Rendered,
        ctx: &CallContext,
    ) -> Result<Json, ToolError> {
        let settings: &HttpSettings = &self.settings;
        let max_pages = pages.max_pages.unwrap_or(u32::MAX).min(settings.max_pages);
        let max_items = (pages.max_items.unwrap_or(u32::MAX) as usize).min(settings.max_items);
        let mut so_far = SoFar::default();
        let mut request = pages.first(request)?;
        let mut seen: Vec<Place> = Vec::new();
        let (cut, next) = loop {
            let reply = self.attempts(trip, &request, Reading::Whole).await?;
            trip.report.status = Some(reply.status.as_u16());
            require_success(trip.tool, &request.url, &reply)?;
            so_far.bytes += reply.body.len();
            let json = reply::json(&request.url, &reply)?;
            so_far.pages += 1;
            let found = json.clone();
            let items = pages.items_of(&trip.tool.extract, json)?;
            so_far.last_page = items.len();
            so_far.items.extend(items);
            trip.report.pages = Some(PageReport { pages: so_far.pages, items: so_far.items.len(), cut: None });
            let next = pages.next(&request.url, &reply, &found, &so_far)?;
            if so_far.items.len() > max_items {
                so_far.items.truncate(max_items);
                break (Some(Cut::Items), next);
            }
            let Some(next) = next else { break (None, None) };
            let cut = if seen.contains(&next) {
                Some(Cut::Repeated)
            } else if so_far.items.len() == max_items {
                Some(Cut::Items)
            } else if so_far.pages >= max_pages {
                Some(Cut::Pages)
            } else if so_far.bytes >= settings.max_response_bytes {
                Some(Cut::Bytes)
            } else {
                None
            };
            if cut.is_some() {
                break (cut, Some(next));
            }
            ctx.progress.report(Progress {
                done: f64::from(so_far.pages),
                total: None,
                message: Some(format!("{} items in {} pages\n", so_far.items.len(), so_far.pages)),
            });
            match (&next, &pages.next) {
                (Place::Address(url), _) => request.url = url.clone(),
                (Place::Parameter(value), Next::Cursor { parameter, .. } | Next::Number { parameter, .. }) => {
                    parameter.set(&mut request, value)?;
                }
                (Place::Parameter(_), Next::Link) => {}
            }
            seen.push(next);
        };
        let report = PageReport { pages: so_far.pages, items: so_far.items.len(), cut };
        trip.report.pages = Some(report);
        if !pages.envelope {
            return Ok(Json::Array(so_far.items));
        }
        Ok(json!({
            "items": so_far.items,
            "pages": so_far.pages,
            "cut": cut.map(Cut::as_str),
            "next": next.map(|next| next.shown()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_the_next_page_are_found_among_others() {
        let github = "<https://x.org/a?page=1>; rel=\"prev\", <https://x.org/a?page=3>; rel=\"next\", <https://x.org/a?page=9>; rel=\"last\"";
        assert_eq!(next_link(github), ["https://x.org/a?page=3"]);
        assert_eq!(next_link("</b>; title=\"a, b\"; REL=\"last next\""), ["/b"]);
        assert_eq!(next_link("</b>; rel=next"), ["/b"]);
        for none in ["", "<a", "</b>; rel=prev", "</b>; title=\"rel=next\"", "</b>"] {
            assert_eq!(next_link(none), [""; 0], "{none}");
        }
    }

    #[test]
    fn a_parameter_keeps_its_place_and_its_neighbours() {
        let mut url = Url::parse("http://x.org/?a=1%2F2&page=1&b").unwrap();
        set_query(&mut url, "page", "2 3");
        assert_eq!(url.as_str(), "http://x.org/?a=1%2F2&page=2%203&b");
        set_query(&mut url, "c", "é");
        assert_eq!(url.as_str(), "http://x.org/?a=1%2F2&page=2%203&b&c=%C3%A9");
    }
}
