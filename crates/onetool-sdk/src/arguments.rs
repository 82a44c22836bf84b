//! The arguments of one call.

use indexmap::IndexMap;
use serde_json::Map;

use crate::Value;

/// Positional and named arguments, in the order they were given.
///
/// After the call path has matched them against a signature, `positional` holds only what goes to a `*args`
/// parameter; everything else has its parameter's full name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Arguments {
    pub positional: Vec<Value>,
    pub named: IndexMap<String, Value>,
}

impl Arguments {
    pub fn named<K: Into<String>>(pairs: impl IntoIterator<Item = (K, Value)>) -> Self {
        Self { positional: Vec::new(), named: pairs.into_iter().map(|(k, v)| (k.into(), v)).collect() }
    }

    /// From a JSON object, as REST and MCP send arguments.
    pub fn from_json(object: Map<String, serde_json::Value>) -> Self {
        Self::named(object.into_iter().map(|(k, v)| (k, Value::from_json(v))))
    }

    /// The named arguments as a JSON object. Positional ones have no name and are left out.
    pub fn to_json(&self) -> Map<String, serde_json::Value> {
        self.named.iter().map(|(k, v)| (k.clone(), v.to_json())).collect()
    }
}
