//! The place of keys in the file: a name at the top level, or below `tools`.

use serde_json::Value as Json;

use crate::shape::{Effect, Shape};
use crate::value::ConfigValue;

/// A section of the configuration, declared by its owner.
#[derive(Debug, Clone, Copy)]
pub struct Section<T> {
    path: &'static str,
    doc: &'static str,
    shape: Shape,
    default: fn() -> T,
    effect: Effect,
    example: &'static str,
}

impl<T: ConfigValue + Default> Section<T> {
    /// The section at `path`, e.g. `run` or `tools.file`. Its keys declare themselves when a change takes effect.
    pub const fn new(path: &'static str) -> Self {
        Self { path, doc: T::DOC, shape: T::SHAPE, default: T::default, effect: Effect::Live, example: "" }
    }
}

impl<T: ConfigValue> Section<T> {
    /// A section whose type has no default of its own.
    pub const fn new_or(path: &'static str, default: fn() -> T) -> Self {
        Self { path, doc: T::DOC, shape: T::SHAPE, default, effect: Effect::Live, example: "" }
    }

    /// Sets the description, one sentence.
    #[must_use]
    pub const fn with_doc(mut self, doc: &'static str) -> Self {
        self.doc = doc;
        self
    }

    /// Sets what is accepted, if the type alone does not determine it.
    #[must_use]
    pub const fn with_shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// Sets when a change of the whole section takes effect.
    #[must_use]
    pub const fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Sets the YAML below the section's name in the commented example, for sections without keys of their own.
    #[must_use]
    pub const fn with_example(mut self, example: &'static str) -> Self {
        self.example = example;
        self
    }

    pub fn default(&self) -> T {
        (self.default)()
    }
}

/// A section of any type, for the checker and the reference.
pub trait AnySection: Send + Sync {
    /// `run`, `tools.file`
    fn path(&self) -> &'static str;
    fn doc(&self) -> &'static str;
    fn shape(&self) -> Shape;
    fn effect(&self) -> Effect;
    fn example(&self) -> &'static str;
    /// The default as it would be written.
    fn default_json(&self) -> Json;
    /// Whether the type can hold this value, which has been checked against the shape.
    fn holds(&self, value: Json) -> bool;
}

impl<T: ConfigValue> AnySection for Section<T> {
    fn path(&self) -> &'static str {
        self.path
    }

    fn doc(&self) -> &'static str {
        self.doc.trim()
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    fn example(&self) -> &'static str {
        self.example
    }

    fn default_json(&self) -> Json {
        self.default().write()
    }

    fn holds(&self, value: Json) -> bool {
        T::read(value).is_some()
    }
}
