//! Names and descriptions in several languages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Maximum number of languages for one bundle or tool.
const MAX_LANGUAGES: usize = 50;

/// Name and description in one language.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Translation {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// By language: `de`, `pt-BR`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Translations(pub BTreeMap<String, Translation>);

impl Translations {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks the translations; the error says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        if self.0.len() > MAX_LANGUAGES {
            return Err(format!("translations: at most {MAX_LANGUAGES} languages"));
        }
        match self.0.keys().find(|language| !is_language(language)) {
            Some(wrong) => {
                let shown: String = wrong.chars().take(40).collect();
                Err(format!("translations: '{shown}' is not a language such as de or pt-BR"))
            }
            None => Ok(()),
        }
    }

    /// Finds the first available of `languages`: exactly, or the same language of another region.
    pub fn find<'a>(&'a self, languages: &'a [String]) -> Option<(&'a str, &'a Translation)> {
        languages.iter().find_map(|wanted| {
            let primary = |language: &str| language.split('-').next().unwrap_or_default().to_ascii_lowercase();
            let exact = self.0.iter().find(|(language, _)| language.eq_ignore_ascii_case(wanted));
            let broader = || self.0.iter().find(|(language, _)| language.eq_ignore_ascii_case(&primary(wanted)));
            let nearest = || self.0.iter().find(|(language, _)| primary(language) == primary(wanted));
            exact.or_else(broader).or_else(nearest).map(|(language, found)| (language.as_str(), found))
        })
    }

    /// Name and description in the first available of `languages`, or the given defaults.
    pub fn choose<'a>(
        &'a self,
        languages: &'a [String],
        display_name: &'a str,
        description: &'a str,
    ) -> (&'a str, &'a str) {
        let given = |text: &'a str, or: &'a str| if text.is_empty() { or } else { text };
        match self.find(languages) {
            None => (display_name, description),
            Some((_, found)) => (given(&found.display_name, display_name), given(&found.description, description)),
        }
    }

    /// Every text, for the search.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.values().flat_map(|one| [one.display_name.as_str(), one.description.as_str()])
    }
}

/// `en`, `pt-BR`, `zh-Hant-TW`.
pub fn is_language(text: &str) -> bool {
    let mut parts = text.split('-');
    let primary = parts.next().unwrap_or_default();
    (2..=8).contains(&primary.len())
        && primary.bytes().all(|c| c.is_ascii_alphabetic())
        && text.len() <= 35
        && parts.all(|part| (1..=8).contains(&part.len()) && part.bytes().all(|c| c.is_ascii_alphanumeric()))
}

/// Parses an `Accept-Language` header, preferred languages first.
pub fn accepted_languages(header: &str) -> Vec<String> {
    const MOST: usize = 20;
    let mut wanted: Vec<(f32, String)> = header
        .split(',')
        .take(MOST)
        .filter_map(|part| {
            let (language, quality) = part.split_once(';').unwrap_or((part, "q=1"));
            let quality: f32 = quality.trim().strip_prefix("q=")?.trim().parse().ok()?;
            let language = language.trim();
            (is_language(language) && quality > 0.0).then(|| (quality, language.to_owned()))
        })
        .collect();
    wanted.sort_by(|a, b| b.0.total_cmp(&a.0));
    wanted.into_iter().map(|(_, language)| language).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_language_is_found() {
        let one = |name: &str| Translation { display_name: name.to_owned(), description: String::new() };
        let all = Translations(BTreeMap::from([("de".to_owned(), one("Wetter")), ("pt-BR".to_owned(), one("Clima"))]));
        let name = |languages: &[&str]| {
            let languages: Vec<String> = languages.iter().map(|one| (*one).to_owned()).collect();
            all.choose(&languages, "Weather", "d").0.to_owned()
        };
        assert_eq!(name(&["de-AT", "pt"]), "Wetter");
        assert_eq!(name(&["fr", "pt"]), "Clima");
        assert_eq!(name(&["PT-br"]), "Clima");
        assert_eq!(name(&["fr"]), "Weather");
        assert_eq!(accepted_languages("fr;q=0.5, de-CH, *;q=0.1, x;q=no"), ["de-CH", "fr"]);
        assert!(is_language("zh-Hant-TW") && !is_language("d") && !is_language("de_DE") && !is_language("../x"));
    }
}
