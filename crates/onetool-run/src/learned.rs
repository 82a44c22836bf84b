//! Learns what tools return, where they do not declare it.
//!
//! The shapes of results (never results) are stored by tool and by the description that the tool had then: a tool that
//! changes is learned anew. They are written beside the statistics, or into the state that servers share, whenever they
//! change, and can be lost without harm.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use onetool_sdk::{QualifiedName, ToolSpec, Value};
use onetool_state::interface::{Collection, Documents, Expect, Key};
use onetool_state::{StateError, atomic};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::shapes::Shape;

/// Maximum number of tools to learn.
const MAX_TOOLS: usize = 2_000;
/// Maximum size of the file.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// After this many results of a tool, only some are examined.
const CLOSE_LOOKS: u64 = 16;

/// The learned shapes of all tools.
#[derive(Default)]
pub struct LearnedShapes {
    /// `None` disables learning.
    place: Option<ShapePlace>,
    known: Mutex<Option<HashMap<String, Known>>>,
    /// Held while the file is written, so that the newest state is written last.
    writing: Arc<Mutex<()>>,
}

enum ShapePlace {
    File(PathBuf),
    Shared(Arc<dyn Documents>),
}

/// Key of the document that servers share.
const DOCUMENT: &str = "shapes";
/// Number of attempts to write when other servers write too.
const ATTEMPTS: usize = 5;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Known {
    /// Version of the tool that returned the results.
    version: u64,
    seen: u64,
    shape: Shape,
}

/// What a tool has been seen to return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub times: u64,
    /// As a Python type.
    pub shape: String,
}

impl LearnedShapes {
    /// Stores shapes in a file, which is read on first use.
    pub fn in_file(file: PathBuf) -> Self {
        Self { place: Some(ShapePlace::File(file)), ..Self::default() }
    }

    /// Stores shapes in the state that servers share.
    pub fn shared(documents: Arc<dyn Documents>) -> Self {
        Self { place: Some(ShapePlace::Shared(documents)), ..Self::default() }
    }

    /// Learns nothing and knows nothing.
    pub fn disabled() -> Self {
        Self::default()
    }

    /// Learns from a result.
    pub(crate) fn learn(self: &Arc<Self>, name: &QualifiedName, tool: &ToolSpec, value: &Value) {
        if self.place.is_none() || name.pack == "ot" || !says_little(tool) {
            return;
        }
        let mut guard = self.known.lock();
        let known = self.known_in(&mut guard);
        let key = name.to_string();
        if known.len() >= MAX_TOOLS && !known.contains_key(&key) {
            return;
        }
        let version = version(tool);
        let entry = known.entry(key).or_insert_with(|| Known { version, seen: 0, shape: Shape::default() });
        if entry.version != version {
            *entry = Known { version, seen: 0, shape: Shape::default() };
        }
        entry.seen += 1;
        if entry.seen > CLOSE_LOOKS && !entry.seen.is_power_of_two() {
            return;
        }
        let before = entry.shape.text();
        entry.shape.merge(Shape::of(value));
        if entry.seen.is_power_of_two() || before != entry.shape.text() {
            drop(guard);
            self.write_soon();
        }
    }

    /// What a tool has been seen to return, if that is informative.
    pub fn of(self: &Arc<Self>, name: &str, tool: &ToolSpec) -> Option<Seen> {
        if self.place.is_none() || !says_little(tool) {
            return None;
        }
        let mut known = self.known.lock();
        let entry = self.known_in(&mut known).get(name)?;
        (entry.version == version(tool) && entry.shape.has_parts())
            .then(|| Seen { times: entry.seen, shape: entry.shape.text() })
    }

    /// The known shapes, loaded on first use. Shared state is loaded in the background, so that nobody waits for it.
    fn known_in<'a>(self: &Arc<Self>, known: &'a mut Option<HashMap<String, Known>>) -> &'a mut HashMap<String, Known> {
        if known.is_none()
            && matches!(self.place, Some(ShapePlace::Shared(_)))
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let book = self.clone();
            runtime.spawn(async move { book.exchange().await });
        }
        known.get_or_insert_with(|| self.read())
    }

    /// Merges what other servers have learned, and publishes the result.
    async fn exchange(&self) {
        let Some(ShapePlace::Shared(documents)) = &self.place else { return };
        let Ok(key) = DOCUMENT.parse::<Key>() else { return };
        for _ in 0..ATTEMPTS {
            let Ok(found) = documents.get(Collection::SHAPES, &key).await else { return };
            let theirs: HashMap<String, Known> =
                found.as_ref().and_then(|found| serde_json::from_slice(&found.content).ok()).unwrap_or_default();
            let content = {
                let mut guard = self.known.lock();
                let ours = guard.get_or_insert_default();
                for (tool, known) in theirs {
                    let is_better = ours.get(&tool).is_none_or(|own| own.seen < known.seen);
                    if is_better && (ours.contains_key(&tool) || ours.len() < MAX_TOOLS) {
                        ours.insert(tool, known);
                    }
                }
                // Sorted, so that equal contents serialise equally.
                serde_json::to_vec(&ours.iter().collect::<BTreeMap<_, _>>()).unwrap_or_default()
            };
            if found.as_ref().is_some_and(|found| found.content == content) || content == b"{}" {
                return;
            }
            let expect = found.map_or(Expect::Absent, |found| Expect::Revision(found.revision));
            match documents.put(Collection::SHAPES, &key, &content, &expect.into()).await {
                Err(StateError::Conflict(_) | StateError::Stale(_)) => {}
                Err(error) => return tracing::debug!(%error, "the shapes of results could not be shared"),
                Ok(_) => return,
            }
        }
    }

    fn read(&self) -> HashMap<String, Known> {
        let Some(ShapePlace::File(file)) = &self.place else { return HashMap::new() };
        let is_small = std::fs::metadata(file).is_ok_and(|metadata| metadata.len() <= MAX_FILE_BYTES);
        let text = is_small.then(|| std::fs::read(file).ok()).flatten();
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    fn write_soon(self: &Arc<Self>) {
        let book = self.clone();
        if let Some(ShapePlace::Shared(_)) = &self.place {
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { book.exchange().await });
            }
            return;
        }
        let write = move || {
            let writing = book.writing.clone();
            let _guard = writing.lock();
            let Some(ShapePlace::File(file)) = &book.place else { return };
            let text = match &*book.known.lock() {
                Some(known) => serde_json::to_vec(known).unwrap_or_default(),
                None => return,
            };
            if let Err(error) = atomic::write(file, &text) {
                tracing::debug!(%error, "the shapes of results could not be written");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(write)),
            Err(_) => write(),
        }
    }
}

/// Whether the tool's declared return type leaves something to learn.
fn says_little(tool: &ToolSpec) -> bool {
    match tool.signature.returns.as_deref() {
        None => true,
        Some(text) => !text.contains('{') && ["Any", "dict", "list", "object"].iter().any(|word| text.contains(word)),
    }
}

/// A hash of the tool's description and signature.
fn version(tool: &ToolSpec) -> u64 {
    let parts = [tool.description.as_bytes(), tool.signature.render(&tool.name).as_bytes()].concat();
    parts.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(description: &str) -> ToolSpec {
        ToolSpec::from_schema("f", description, json!({}))
    }

    #[test]
    fn what_was_seen_is_known_until_the_tool_changes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stats").join("shapes.json");
        let book = Arc::new(LearnedShapes::in_file(file.clone()));
        let name = QualifiedName::new("p", "f");
        assert_eq!(book.of("p.f", &tool("a")), None);
        for _ in 0..3 {
            book.learn(&name, &tool("a"), &Value::from_json(json!({"id": 1})));
        }
        let seen = Seen { times: 3, shape: "{id: int}".to_owned() };
        assert_eq!(book.of("p.f", &tool("a")), Some(seen));
        assert_eq!(book.of("p.f", &tool("b")), None, "another description is another tool");
        // The second result was the last one that changed the file.
        let again = Arc::new(LearnedShapes::in_file(file.clone()));
        assert_eq!(again.of("p.f", &tool("a")).map(|seen| seen.times), Some(2));
        let written = std::fs::read_to_string(&file).unwrap();
        assert!(!written.contains("\"a\""), "{written}");
        std::fs::write(&file, "not json").unwrap();
        assert_eq!(Arc::new(LearnedShapes::in_file(file)).of("p.f", &tool("a")), None);
    }

    #[test]
    fn what_a_tool_says_itself_is_not_learned() {
        let folder = tempfile::tempdir().unwrap();
        let book = Arc::new(LearnedShapes::in_file(folder.path().join("shapes.json")));
        let mut told = tool("a");
        told.signature.returns = Some("{id: int}".to_owned());
        book.learn(&QualifiedName::new("p", "f"), &told, &Value::from_json(json!({"x": 1})));
        assert_eq!(book.of("p.f", &told), None);
        let off = Arc::new(LearnedShapes::disabled());
        off.learn(&QualifiedName::new("p", "f"), &tool("a"), &Value::from_json(json!({"x": 1})));
        assert_eq!(off.of("p.f", &tool("a")), None);
    }
}
