//! The limits of imports.

use onetool_config::{MAX_MB, Reader, Section, Shape, keys};

keys! {
    /// Imports of bundles: OpenAPI, Postman and Arazzo documents, and archives.
    pub struct ImportKeys {
        /// Size of a document, in megabytes.
        max_document_mb: usize [Shape::Count(1, 100)] = 20, live;
        /// Size of an archive, in megabytes.
        max_archive_mb: usize [Shape::Count(1, 100)] = 50, live;
        /// Size of what an archive holds, unpacked, in megabytes.
        max_unpacked_mb: usize [Shape::Count(1, MAX_MB)] = 100, live;
        /// Tools that one import may bring.
        max_tools: usize [Shape::Count(1, 20_000)] = 5000, live;
    }
}

pub const IMPORTS: Section<ImportKeys> = Section::new("imports");

/// The section `imports` of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportSettings {
    pub max_document_bytes: usize,
    pub max_archive_bytes: usize,
    pub max_unpacked_bytes: usize,
    pub max_tools: usize,
}

impl ImportSettings {
    /// Reads the section `imports`.
    pub fn read(reader: &mut Reader) -> Self {
        Self::from(reader.read(&IMPORTS))
    }
}

impl From<ImportKeys> for ImportSettings {
    fn from(keys: ImportKeys) -> Self {
        Self {
            max_document_bytes: keys.max_document_mb << 20,
            max_archive_bytes: keys.max_archive_mb << 20,
            max_unpacked_bytes: keys.max_unpacked_mb << 20,
            max_tools: keys.max_tools,
        }
    }
}

impl Default for ImportSettings {
    fn default() -> Self {
        Self::from(ImportKeys::default())
    }
}

/// Maximum size of one tool's schemas: arguments and output.
pub(super) const ARGUMENT_BYTES: usize = 48 * 1024;
pub(super) const OUTPUT_BYTES: usize = 16 * 1024;
/// The same for all tools of one document. A tool's share shrinks with their number, but never below…
pub(super) const ALL_ARGUMENT_BYTES: usize = 10 * 1024 * 1024;
pub(super) const ALL_OUTPUT_BYTES: usize = 5 * 1024 * 1024;
/// …this size.
pub(super) const LEAST_BYTES: usize = 1024;
/// Approximate size of a definition.
pub(super) const DEFINITION_BYTES: usize = 200;
/// Longer descriptions are truncated.
pub(super) const DESCRIPTION_CHARS: usize = 1000;
pub(super) const REMARK_CHARS: usize = 300;
/// Maximum number of references in one schema.
pub(super) const DEFINITIONS: usize = 200;
/// Maximum nesting of a schema.
pub(super) const SCHEMA_DEPTH: usize = 64;

/// The share of one tool's schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) argument_bytes: usize,
    pub(super) output_bytes: usize,
}

impl Shares {
    /// Divides the limits by the number of tools.
    pub(super) fn of(tools: usize) -> Self {
        let share = |all: usize, most: usize| (all / tools.max(1)).clamp(LEAST_BYTES, most);
        Self {
            argument_bytes: share(ALL_ARGUMENT_BYTES, ARGUMENT_BYTES),
            output_bytes: share(ALL_OUTPUT_BYTES, OUTPUT_BYTES),
        }
    }
}
