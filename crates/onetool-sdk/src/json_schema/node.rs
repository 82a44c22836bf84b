//! The compiled form of a schema: nodes that hold keywords and refer to one another by index.

use std::sync::Arc;

use serde_json::{Number, Value as Json};

use super::Draft;
use super::content::Encoding;
use super::format::Format;
use super::pattern::Pattern;

/// Index of a node in its schema.
pub(super) type NodeId = u32;
/// Index of a resource (a schema with an `$id`) in its document; 0 is the document itself.
pub(super) type ResourceId = u32;

/// Keys of an object.
pub(super) type Names = Box<[Box<str>]>;

/// One schema. Without keywords, it accepts every value.
#[derive(Debug)]
pub(super) struct Node {
    /// In the order in which they are checked: cheap ones first.
    pub(super) keywords: Box<[Keyword]>,
    pub(super) resource: ResourceId,
}

/// A keyword with its value.
#[derive(Debug)]
pub(crate) enum Keyword {
    /// The schema `false`.
    False,
    Type(Types),
    /// The value, and the number of steps a comparison takes.
    Const(Json, u64),
    /// The options, and the number of steps to compare all of them.
    Enum(Box<[Json]>, u64),
    Minimum(Number),
    Maximum(Number),
    ExclusiveMinimum(Number),
    ExclusiveMaximum(Number),
    MultipleOf(f64),
    MinLength(u64),
    MaxLength(u64),
    MinItems(u64),
    MaxItems(u64),
    MinProperties(u64),
    MaxProperties(u64),
    Required(Names),
    DependentRequired(Box<[(Box<str>, Names)]>),
    Pattern(Arc<Pattern>),
    Format(Format),
    ContentEncoding(Encoding),
    /// `application/json`, optionally encoded.
    ContentJson(Option<Encoding>),
    UniqueItems,
    Properties(Box<Properties>),
    PropertyNames(NodeId),
    /// `prefixItems`, or `items` as a list: the nodes of the first items.
    Prefix(Box<[NodeId]>),
    /// The node of all items from the given index on.
    Rest(usize, NodeId),
    /// `additionalItems: false`.
    NoItemsAfter(usize),
    Contains(Contains),
    DependentSchemas(Box<[(Box<str>, NodeId)]>),
    /// The schemas of `dependencies`, which evaluate no properties.
    Dependencies(Box<[(Box<str>, NodeId)]>),
    AllOf(Box<[NodeId]>),
    AnyOf(Box<[NodeId]>),
    OneOf(Box<[NodeId]>),
    /// The node, and the schema as written.
    Not(NodeId, Json),
    If(If),
    UnevaluatedProperties(NodeId),
    UnevaluatedItems(NodeId),
    Ref(NodeId),
    DynamicRef(Box<DynamicRef>),
    RecursiveRef(Box<RecursiveRef>),
    /// A reference to the meta-schema of a draft.
    MetaSchema(Draft),
}

/// `properties`, `patternProperties` and `additionalProperties`, because each depends on the others.
#[derive(Debug)]
pub(crate) struct Properties {
    /// In the schema's order.
    pub(super) named: Box<[(Box<str>, NodeId)]>,
    /// Positions in `named`, ordered by name; empty if there are few.
    pub(super) sorted: Box<[u32]>,
    pub(super) patterns: Box<[(Arc<Pattern>, NodeId)]>,
    pub(super) additional: Additional,
    /// Whether there is an `additionalProperties`, so that every property counts as evaluated.
    pub(super) evaluates_all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Additional {
    Any,
    None,
    Node(NodeId),
}

#[derive(Debug)]
pub(crate) struct Contains {
    pub(super) node: NodeId,
    pub(super) min: u64,
    pub(super) max: u64,
}

#[derive(Debug)]
pub(crate) struct If {
    pub(super) condition: NodeId,
    pub(super) then: Option<NodeId>,
    pub(super) otherwise: Option<NodeId>,
}

/// The node for a reference in each resource, ordered by resource. Shared by all references of the same name.
pub(super) type Anchors = Arc<[(ResourceId, NodeId)]>;

/// A reference to the outermost resource on the evaluation path that has the anchor.
#[derive(Debug)]
pub(crate) struct DynamicRef {
    pub(super) fallback: NodeId,
    pub(super) anchors: Anchors,
}

/// A reference to the outermost resource on the evaluation path that has `$recursiveAnchor`.
#[derive(Debug)]
pub(crate) struct RecursiveRef {
    pub(super) own: NodeId,
    /// The root of each resource that has a `$recursiveAnchor`.
    pub(super) anchors: Anchors,
}

/// Up to this many names are searched linearly, more by binary search.
pub(super) const FEW_NAMES: usize = 12;

impl Properties {
    pub(super) fn new(named: Vec<(Box<str>, NodeId)>) -> Self {
        let mut sorted = Vec::new();
        if named.len() > FEW_NAMES {
            sorted = (0..named.len() as u32).collect();
            sorted.sort_unstable_by(|a: &u32, b: &u32| named[*a as usize].0.cmp(&named[*b as usize].0));
        }
        Self {
            named: named.into(),
            sorted: sorted.into(),
            patterns: Box::default(),
            additional: Additional::Any,
            evaluates_all: false,
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<NodeId> {
        if self.sorted.is_empty() {
            return self.named.iter().find(|(known, _)| **known == *name).map(|(_, node)| *node);
        }
        let found = self.sorted.binary_search_by(|at| (*self.named[*at as usize].0).cmp(name)).ok()?;
        Some(self.named[self.sorted[found] as usize].1)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(|(name, _)| &**name)
    }
}

/// A set of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Types(u8);

const NAMES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
const INTEGER: u8 = 1 << 2;
const NUMBER: u8 = 1 << 3;
/// In draft 4, `1.0` is not an integer.
const LITERAL_INTEGERS: u8 = 1 << 7;
const BEYOND_INTEGERS: f64 = 9_223_372_036_854_775_808.0;

impl Types {
    pub(super) fn none(draft: Draft) -> Self {
        Self(if draft == Draft::Draft4 { LITERAL_INTEGERS } else { 0 })
    }

    /// Adds a type; `None` if there is no such type.
    pub(super) fn with(self, name: &str) -> Option<Self> {
        let at = NAMES.iter().position(|known| *known == name)?;
        Some(Self(self.0 | 1 << at))
    }

    pub(super) fn contains(self, value: &Json) -> bool {
        let bit = match value {
            Json::Null => 1,
            Json::Bool(_) => 1 << 1,
            Json::Number(number) => {
                let is_literal_only = self.0 & LITERAL_INTEGERS != 0;
                let is_integer = number.as_f64().filter(|_| number.is_f64()).is_none_or(|float| {
                    // Integers too large for any integer type are floats, too.
                    if is_literal_only { float.abs() >= BEYOND_INTEGERS } else { float.fract() == 0.0 }
                });
                if is_integer { INTEGER | NUMBER } else { NUMBER }
            }
            Json::String(_) => 1 << 4,
            Json::Array(_) => 1 << 5,
            Json::Object(_) => 1 << 6,
        };
        self.0 & bit != 0
    }

    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES.into_iter().enumerate().filter(move |(at, _)| self.0 & 1 << at != 0).map(|(_, name)| name)
    }
}
