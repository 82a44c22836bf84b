//! Secrets by name.

/// Where secrets come from.
pub trait Secrets: Send + Sync {
    /// The secret `name` as the bundle with this slug may see it.
    fn get(&self, bundle: &str, name: &str) -> Option<String>;
}
