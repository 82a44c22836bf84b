//! Search for callers other than `ot.help`, with the same ranking.

use super::search::Kind;
use crate::ToolboxState;

/// Maximum number of matches by name alone.
const MAX_NAMED: usize = 50;

/// The kind of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundKind {
    Tool,
    Pack,
    Snippet,
    Alias,
}

/// A match for a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub kind: FoundKind,
    /// `pack.function`, a pack, a snippet or an alias.
    pub name: String,
    /// One-line description.
    pub summary: String,
}

impl ToolboxState {
    /// Returns the matches for a query, best first.
    pub fn find(&self, query: &str) -> Vec<Found> {
        let query = query.trim_start_matches('$');
        let hits = self.search.search(self, query);
        if hits.is_empty() {
            return self.named_like(query);
        }
        hits.into_iter().map(|hit| self.found(hit.kind, hit.name)).collect()
    }

    /// Finds entries whose name contains the query, for queries without searchable words.
    fn named_like(&self, query: &str) -> Vec<Found> {
        let query = query.trim().to_lowercase();
        if query.is_empty() {
            return Vec::new();
        }
        let is_like = |name: &String| name.to_lowercase().contains(&query);
        let snippets = self.snippets.keys().filter(|name| is_like(name)).map(|name| (Kind::Snippet, name.clone()));
        let aliases = self.aliases.keys().filter(|name| is_like(name)).map(|name| (Kind::Alias, name.clone()));
        let tools = self.catalog.tools().map(|(pack, tool)| format!("{}.{}", pack.name, tool.name));
        let tools = tools.filter(is_like).map(|name| (Kind::Tool, name));
        snippets.chain(aliases).chain(tools).take(MAX_NAMED).map(|(kind, name)| self.found(kind, name)).collect()
    }

    fn found(&self, kind: Kind, name: String) -> Found {
        let (kind, summary) = match kind {
            Kind::Tool => {
                let tool = name.parse().ok().and_then(|name| self.catalog.tool(&name));
                (FoundKind::Tool, tool.map(|tool| tool.summary().to_owned()))
            }
            Kind::Pack => {
                let pack = self.catalog.pack(&name);
                (FoundKind::Pack, pack.and_then(|entry| entry.pack.description.lines().next().map(str::to_owned)))
            }
            Kind::Snippet => (FoundKind::Snippet, self.snippets.get(&name).map(|snippet| snippet.description.clone())),
            Kind::Alias => (FoundKind::Alias, self.aliases.get(&name).cloned()),
        };
        Found { kind, name, summary: summary.unwrap_or_default() }
    }
}
