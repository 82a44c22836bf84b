//! Ids, slugs and versions: parsed once, valid from then on.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use unicode_general_category::{GeneralCategory, get_general_category};
use uuid::{Uuid, Variant};

/// Maximum length of a slug or version, in characters.
pub(crate) const MAX_NAME_CHARS: usize = 64;

/// Why a name or an id is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(String);

/// Letters and digits of any script, and the ASCII dash.
fn is_allowed(c: char) -> bool {
    c == '-'
        || matches!(
            get_general_category(c),
            GeneralCategory::UppercaseLetter
                | GeneralCategory::LowercaseLetter
                | GeneralCategory::TitlecaseLetter
                | GeneralCategory::ModifierLetter
                | GeneralCategory::OtherLetter
                | GeneralCategory::DecimalNumber
        )
}

fn check(what: &str, text: &str, also: Option<char>) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError(format!("a {what} must not be empty")));
    }
    if text.chars().count() > MAX_NAME_CHARS {
        return Err(NameError(format!("a {what} has at most {MAX_NAME_CHARS} characters")));
    }
    match text.chars().find(|&c| !is_allowed(c) && also != Some(c)) {
        None => Ok(()),
        Some(c) => {
            let dot = if also.is_some() { ", dots" } else { "" };
            Err(NameError(format!("a {what} holds letters, digits{dot} and dashes only, not {:?}", c.to_string())))
        }
    }
}

/// The short name of a bundle or a tool. Case-sensitive.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slug(Box<str>);

/// An opaque label of a revision. Like a slug, but may contain dots.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version(Box<str>);

impl Slug {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The slug closest to a Python name: `web_search` becomes `web-search`.
    pub fn from_identifier(name: &str) -> Result<Self, NameError> {
        name.replace('_', "-").parse()
    }

    /// The Python name: `web-search` becomes `web_search`.
    pub fn identifier(&self) -> String {
        onetool_sdk::to_python_identifier(&self.0)
    }
}

impl Version {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Slug {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check("slug", text, None).map(|()| Self(text.into()))
    }
}

impl FromStr for Version {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check("version", text, Some('.')).map(|()| Self(text.into()))
    }
}

impl TryFrom<String> for Slug {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl TryFrom<String> for Version {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<Slug> for String {
    fn from(slug: Slug) -> Self {
        slug.0.into()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.0.into()
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A bundle's id, a UUIDv7 in its canonical spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BundleId(Uuid);

/// A tool's id, a UUIDv7 in its canonical spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolId(Uuid);

fn parse_v7(what: &str, text: &str) -> Result<Uuid, NameError> {
    let wrong = || NameError(format!("a {what} id is a UUIDv7 such as 018faf50-b7b6-7a01-9a05-a22a6e0af101"));
    // Only the hyphenated form: an id is a file name, so it has one spelling.
    if text.len() != 36 {
        return Err(wrong());
    }
    let id = Uuid::try_parse(text).map_err(|_| wrong())?;
    if id.get_version_num() == 7 && id.get_variant() == Variant::RFC4122 { Ok(id) } else { Err(wrong()) }
}

/// The time encoded in all built-in ids: they sort before everything a user creates.
const BUILT_IN_MILLIS: u64 = 1_735_689_600_000;

/// Derives an id from a name; it is the same in every build and process.
fn built_in(kind: &str, name: &str) -> Uuid {
    let hash = blake3::hash(format!("onetool built-in {kind} {name}").as_bytes());
    let mut random = [0_u8; 10];
    random.copy_from_slice(&hash.as_bytes()[..10]);
    uuid::Builder::from_unix_timestamp_millis(BUILT_IN_MILLIS, &random).into_uuid()
}

impl BundleId {
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    pub(crate) fn built_in(slug: &str) -> Self {
        Self(built_in("bundle", slug))
    }
}

impl ToolId {
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    pub(crate) fn built_in(bundle: &str, slug: &str) -> Self {
        Self(built_in("tool", &format!("{bundle}/{slug}")))
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl BundleId {
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }
}

impl FromStr for BundleId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        parse_v7("bundle", text).map(Self)
    }
}

impl FromStr for ToolId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        parse_v7("tool", text).map(Self)
    }
}

impl TryFrom<String> for BundleId {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl TryFrom<String> for ToolId {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        text.parse()
    }
}

impl From<BundleId> for String {
    fn from(id: BundleId) -> Self {
        id.to_string()
    }
}

impl From<ToolId> for String {
    fn from(id: ToolId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for BundleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_go_by_unicode_category() {
        for good in ["weather", "größe", "天気-2", "A-b", "٣", &"x".repeat(64)] {
            assert!(good.parse::<Slug>().is_ok(), "{good}");
        }
        for bad in ["", "a_b", "a b", "a/b", "a.b", "a+b", "\u{7}", "a\u{2013}b", "Ⅷ", "²", &"x".repeat(65)] {
            assert!(bad.parse::<Slug>().is_err(), "{bad:?}");
        }
        assert!("v1.2".parse::<Version>().is_ok());
        assert!("v1_2".parse::<Version>().is_err());
        assert_eq!(&"é".repeat(64).parse::<Slug>().unwrap().to_string(), &"é".repeat(64));
    }

    #[test]
    fn ids_are_version_seven() {
        assert!("018faf50-b7b6-7a01-9a05-a22a6e0af101".parse::<BundleId>().is_ok());
        assert!("018faf50-b7b6-4a01-9a05-a22a6e0af101".parse::<BundleId>().is_err());
        assert!("018faf50b7b67a019a05a22a6e0af101".parse::<BundleId>().is_err());
        let built_in = ToolId::built_in("brave", "web-search");
        assert_eq!(built_in.to_string().parse::<ToolId>(), Ok(built_in));
        assert!(built_in < ToolId::generate());
    }
}
