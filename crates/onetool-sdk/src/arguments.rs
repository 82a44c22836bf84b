//! The arguments of one call.

use indexmap::IndexMap;
use serde_json::Map;

use crate::Value;

/// Positional and named arguments, in the order they were given.
///
/// After the call path has matched them against a signature, `positional` holds only the arguments of a `*args`
/// parameter; every other argument has its parameter's full name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments {
    pub positional: Vec<Value>,
    pub named: IndexMap<String, Value>,
}

impl Arguments {
    pub fn named<K: Into<String>>(pairs: impl IntoIterator<Item = (K, Value)>) -> Self {
        Self { positional: Vec::new(), named: pairs.into_iter().map(|(k, v)| (k.into(), v)).collect() }
    }

    /// Converts a JSON object, the form in which REST and MCP send arguments.
    pub fn from_json(object: Map<String, serde_json::Value>) -> Self {
        Self::named(object.into_iter().map(|(k, v)| (k, Value::from_json(v))))
    }

    /// Returns the named arguments as a JSON object. Positional arguments have no name and are left out.
    pub fn to_json(&self) -> Map<String, serde_json::Value> {
        self.named.iter().map(|(k, v)| (k.clone(), v.to_json())).collect()
    }
}
