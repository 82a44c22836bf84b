//! All packs: their configuration sections, their settings, and the packs themselves.
//!
//! A new pack is a module of this crate and its lines here.

use std::sync::Arc;

use onetool_config::{AnySection, Reader};
use onetool_sdk::NativePack;
use onetool_state::interface::Documents;

use crate::file::{self, FileSettings};
use crate::llm::{self, LlmSettings};
use crate::standard::{self, ResultReader};
use crate::web::{self, WebSettings};

/// The configuration sections of all packs.
pub const SECTIONS: &[&dyn AnySection] = &[&file::FILE, &llm::LLM, &web::WEB];

/// The settings of all packs.
#[derive(Debug, Clone)]
pub struct PackSettings {
    pub file: FileSettings,
    pub web: WebSettings,
    pub llm: LlmSettings,
}

impl PackSettings {
    pub fn read(reader: &mut Reader) -> Self {
        Self { file: FileSettings::read(reader), web: WebSettings::read(reader), llm: LlmSettings::read(reader) }
    }
}

/// What packs use of the server.
pub struct PackServices {
    /// Stored results.
    pub results: Arc<dyn ResultReader>,
    /// Where the todo lists are kept.
    pub documents: Arc<dyn Documents>,
}

/// Packs whose names no other pack can take.
pub fn fixed_packs(settings: &PackSettings, services: PackServices) -> Vec<NativePack> {
    vec![file::pack(settings.file.clone()), standard::pack(services.results, services.documents)]
}

/// Packs that a user's pack of the same name replaces.
pub fn replaceable_packs(settings: &PackSettings) -> Vec<NativePack> {
    vec![web::pack(settings.web.clone()), llm::pack(settings.llm.clone())]
}
