//! Responses that arrive in pieces: streams of events, and lists of several pages.

use serde::{Deserialize, Serialize};

/// A response that is a stream of events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StreamRule {
    pub format: StreamFormat,
    /// A JSONPath to the text that an event adds; the texts are joined.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Names of the server-sent events to use; all when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// Data that ends the stream; `[DONE]` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// A JSONPath; an event in which it matches fails the call.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// When absent: the joined text if `text` is given, otherwise all events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<StreamResult>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamFormat {
    /// Determined by the response's content type.
    #[default]
    Auto,
    Sse,
    Ndjson,
}

/// The value of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamResult {
    Text,
    Last,
    Events,
}

/// A list in several pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PageRule {
    #[serde(flatten)]
    pub kind: PageKind,
    /// A JSONPath to a page's items; when empty, the page itself after `extractExpr`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub items: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_pages: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u32>,
    /// Whether the value is `{items, pages, cut, next}` instead of the items alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub envelope: bool,
}

/// How the next page is requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum PageKind {
    /// Each response names the next page.
    Cursor {
        /// A JSONPath to the cursor; the last page has none.
        cursor: String,
        /// The parameter that carries it.
        param: String,
        #[serde(default, rename = "in", skip_serializing_if = "PagePlace::is_query")]
        place: PagePlace,
    },
    /// By page number.
    Page {
        param: String,
        #[serde(default = "one")]
        start: u64,
        /// The parameter and number of items per page: a page with fewer is the last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size_param: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u32>,
        #[serde(default, rename = "in", skip_serializing_if = "PagePlace::is_query")]
        place: PagePlace,
    },
    /// By number of items.
    Offset {
        param: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size_param: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u32>,
        #[serde(default, rename = "in", skip_serializing_if = "PagePlace::is_query")]
        place: PagePlace,
    },
    /// By the `Link` header with `rel="next"`.
    Link,
}

fn one() -> u64 {
    1
}

/// Where a paging parameter is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PagePlace {
    #[default]
    Query,
    /// A member of the JSON body.
    Body,
}

impl PagePlace {
    fn is_query(&self) -> bool {
        *self == Self::Query
    }
}
