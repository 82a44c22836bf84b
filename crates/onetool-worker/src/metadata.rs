//! PEP 723: the comment block in which a script declares its requirements.
//!
//! The rules are those of the reference implementation in the specification: a block starts with `# /// TYPE`, every
//! line of it is `#` or starts with `# `, and it ends with the last `# ///` of that run of lines. At most one `script`
//! block is allowed.

use std::sync::LazyLock;

use regex::Regex;
use serde::Deserialize;

/// The specification's own expression, with line endings adapted so that CRLF files work too.
static BLOCK: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)[ \t]*\r?$\s(?P<content>(^#(| .*)\r?$\s)+)^# ///[ \t]*\r?$").ok()
});

/// A tool file's metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Metadata {
    pub(super) dependencies: Vec<String>,
    pub(super) requires_python: Option<String>,
    /// The secrets that the file may request, from `[tool.onetool]`.
    pub(super) secrets: Vec<String>,
    /// Maximum number of plain functions that run concurrently, from `[tool.onetool]`.
    pub(super) threads: Option<std::num::NonZeroUsize>,
    /// Remarks about the block, by line.
    pub(super) remarks: Vec<(usize, String)>,
    /// The block's text without the comment signs: an environment made for it stays valid until it changes.
    pub(super) text: String,
}

impl Metadata {
    /// Returns the local packages that the block names, as paths relative to the file: `[tool.uv.sources]`, and
    /// `name @ file:///folder`.
    pub(super) fn local_packages(&self) -> Vec<String> {
        let table = self.text.parse::<toml::Table>().unwrap_or_default();
        let sources = table.get("tool").and_then(|tool| tool.get("uv")?.get("sources")?.as_table());
        // One source, or several with conditions.
        let each = |source: &toml::Value| source.as_array().cloned().unwrap_or_else(|| vec![source.clone()]);
        let of_uv = sources.into_iter().flat_map(|sources| sources.values().flat_map(each)).filter_map(|source| {
            let named = source.get("path").or_else(|| source.get("git")).or_else(|| source.get("url"))?.as_str()?;
            source.get("path").is_some().then(|| named.to_owned()).or_else(|| onetool_config::local_package(named))
        });
        of_uv.chain(self.dependencies.iter().filter_map(|package| onetool_config::local_package(package))).collect()
    }
}

/// The metadata found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Header {
    None,
    Script(Metadata),
    /// A block that is not valid TOML or has wrong types: treated as missing, but reported to the user.
    Malformed {
        line: usize,
        reason: String,
    },
    /// More than one block, so it is ambiguous which one counts.
    Twice {
        line: usize,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Script {
    #[serde(default)]
    dependencies: Vec<String>,
    requires_python: Option<String>,
    #[serde(default)]
    tool: Tools,
}

#[derive(Deserialize, Default)]
struct Tools {
    #[serde(default)]
    onetool: OneTool,
}

#[derive(Deserialize, Default)]
struct OneTool {
    #[serde(default)]
    secrets: Vec<String>,
    threads: Option<std::num::NonZeroUsize>,
}

/// Reads the `script` block of a file's text.
pub(super) fn read(source: &str) -> Header {
    // This alone rules out most files without a block.
    if !source.contains("# /// script") {
        return almost(source);
    }
    let Some(expression) = &*BLOCK else { return Header::None };
    let mut blocks = expression.captures_iter(source).filter(|block| &block["type"] == "script");
    let Some(first) = blocks.next() else { return unclosed(source) };
    if let Some(second) = blocks.next() {
        return Header::Twice { line: line_of(source, second.get(0).map_or(0, |found| found.start())) };
    }
    let text: String = first["content"]
        .lines()
        .map(|line| line.strip_prefix("# ").or_else(|| line.strip_prefix('#')).unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    let line = line_of(source, first.get(0).map_or(0, |found| found.start()));
    match toml::from_str::<Script>(&text) {
        Ok(script) => Header::Script(Metadata {
            dependencies: script.dependencies,
            requires_python: script.requires_python,
            secrets: script.tool.onetool.secrets,
            threads: script.tool.onetool.threads,
            remarks: unknown_keys(&text).into_iter().map(|(at, reason)| (line + 1 + at, reason)).collect(),
            text,
        }),
        Err(error) => {
            let inside = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count());
            Header::Malformed { line: line + 1 + inside, reason: error.message().to_owned() }
        }
    }
}

/// Handles a file without a block; reports a comment that looks like the start of one.
fn almost(source: &str) -> Header {
    let begins = |line: &str| {
        let line = line.strip_prefix('#').map(str::trim).unwrap_or_default();
        let slashes = line.chars().take_while(|character| *character == '/').count();
        slashes >= 2 && line[slashes..].trim().eq_ignore_ascii_case("script")
    };
    match source.lines().position(begins) {
        Some(at) => Header::Malformed {
            line: at + 1,
            reason: "it looks like script metadata, but a block begins with exactly '# /// script'".to_owned(),
        },
        None => Header::None,
    }
}

/// Reports a block that begins and does not end.
fn unclosed(source: &str) -> Header {
    let Some(at) = source.lines().position(|line| line.trim_end() == "# /// script") else { return Header::None };
    let inside = source.lines().skip(at + 1).position(|line| line != "#" && !line.starts_with("# "));
    let line = inside.map_or(at + 1, |inside| at + 2 + inside);
    let reason = "the block is not closed: every line of it begins with '# ', and its last one is '# ///'".to_owned();
    Header::Malformed { line, reason }
}

/// Returns unknown keys, with their lines inside the block.
fn unknown_keys(text: &str) -> Vec<(usize, String)> {
    const TOP: [&str; 3] = ["dependencies", "requires-python", "tool"];
    const OURS: [&str; 2] = ["secrets", "threads"];
    let Ok(table) = text.parse::<toml::Table>() else { return Vec::new() };
    let ours = table.get("tool").and_then(|tool| tool.get("onetool")).and_then(toml::Value::as_table);
    let places = [(Some(&table), TOP.as_slice(), ""), (ours, OURS.as_slice(), " in [tool.onetool]")];
    let mut remarks = Vec::new();
    for (table, known, place) in places {
        for key in table.into_iter().flat_map(toml::Table::keys).filter(|key| !known.contains(&key.as_str())) {
            let is_of = |line: &&str| line.trim_start().trim_start_matches(['[', '"']).starts_with(key.as_str());
            let at = text.lines().collect::<Vec<_>>().iter().position(is_of).unwrap_or(0);
            let meant = onetool_sdk::nearest(key, known.iter().copied());
            let meant = meant.filter(|_| key != "onetool").map(|name| format!("; did you mean '{name}'?"));
            let meant =
                meant.unwrap_or_else(|| if key == "onetool" { "; write [tool.onetool]" } else { "" }.to_owned());
            remarks.push((at, format!("unknown key '{key}'{place} of the script metadata{meant}")));
        }
    }
    // Tables of other tools are ignored, unless one is a misspelling of ours.
    let others = table.get("tool").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys);
    for key in others.filter(|key| *key != "onetool" && onetool_sdk::nearest(key, ["onetool"]).is_some()) {
        let at = text.lines().position(|line| line.contains(key.as_str())).unwrap_or(0);
        remarks.push((at, format!("unknown table [tool.{key}] of the script metadata; did you mean [tool.onetool]?")));
    }
    remarks
}

fn line_of(source: &str, offset: usize) -> usize {
    source[..offset].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(source: &str) -> Metadata {
        match read(source) {
            Header::Script(metadata) => metadata,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_header_that_is_almost_one_is_told_with_its_line() {
        let at = |source: &str| match read(source) {
            Header::Malformed { line, reason } => (line, reason),
            other => panic!("{source}: {other:?}"),
        };
        for source in ["#/// script\n# dependencies = []\n# ///\n", "# // script\n# ///\n", "# /// SCRIPT\n# ///\n"] {
            let (line, reason) = at(source);
            assert!(line == 1 && reason.contains("begins with exactly"), "{source}: {reason}");
        }
        let (line, reason) = at("import x\n# /// script\n# dependencies = []\nimport y\n");
        assert!(line == 4 && reason.contains("not closed"), "{line} {reason}");
        let metadata = script("# /// script\n# dependancies = []\n# [tool.onetool]\n# secret = ['A']\n# ///\n");
        assert_eq!(
            metadata.remarks,
            [
                (2, "unknown key 'dependancies' of the script metadata; did you mean 'dependencies'?".to_owned()),
                (
                    4,
                    "unknown key 'secret' in [tool.onetool] of the script metadata; did you mean 'secrets'?".to_owned()
                ),
            ]
        );
        for (source, expected) in [
            ("# /// script\n# [tool.onetol]\n# secrets = ['A']\n# ///\n", "unknown table [tool.onetol]"),
            ("# /// script\n# [onetool]\n# secrets = ['A']\n# ///\n", "write [tool.onetool]"),
        ] {
            let remarks = script(source).remarks;
            assert!(
                remarks.len() == 1 && remarks[0].0 == 2 && remarks[0].1.contains(expected),
                "{source}: {remarks:?}"
            );
        }
        assert!(script("# /// script\n# [tool.uv]\n# [tool.ruff]\n# ///\n").remarks.is_empty());
        for source in ["# a comment // script\n", "x = '# // script'\n", "# /// pyproject\n# ///\n"] {
            assert_eq!(read(source), Header::None, "{source}");
        }
    }

    #[test]
    fn packages_of_this_machine_are_known() {
        let header = "# /// script\n# dependencies = ['a', 'b @ file:///lib/b', 'c']\n# [tool.uv.sources]\n\
                      # a = { path = '../a', editable = true }\n# c = [{ git = 'https://example.org/c' }]\n# ///\n";
        assert_eq!(script(header).local_packages(), ["../a", "/lib/b"]);
        assert!(script("# /// script\n# dependencies = ['a']\n# ///\n").local_packages().is_empty());
    }

    #[test]
    fn a_block_gives_dependencies_python_and_secrets() {
        let metadata = script(
            "#!/usr/bin/env python3\n# /// script\n# requires-python = \">=3.11\"\n# dependencies = [\n#   \"httpx\",  # web\n#\n#   'rich>=13',\n# ]\n# [tool.onetool]\n# secrets = [\"BRAVE_API_KEY\"]\n# ///\nimport httpx\n",
        );
        assert_eq!(metadata.dependencies, ["httpx", "rich>=13"]);
        assert_eq!(metadata.requires_python.as_deref(), Some(">=3.11"));
        assert_eq!(metadata.secrets, ["BRAVE_API_KEY"]);
    }

    #[test]
    fn crlf_is_read_like_lf() {
        let metadata = script("# /// script\r\n# dependencies = [\"six\"]\r\n# ///\r\nimport six\r\n");
        assert_eq!(metadata.dependencies, ["six"]);
    }

    #[test]
    fn the_block_ends_at_the_last_closing_line_of_its_run() {
        let metadata = script("# /// script\n# dependencies = [\"a\"]\n# x = '''\n# ///\n# '''\n# ///\n");
        assert_eq!(metadata.dependencies, ["a"]);
        assert!(metadata.text.contains("///"));
    }

    #[test]
    fn malformed_toml_is_told_with_its_line() {
        assert!(matches!(
            read("# /// script\n# a = 1\n# dependencies = [\n# ///\n"),
            Header::Malformed { line: 3 | 4, .. }
        ));
        assert!(matches!(read("# /// script\n# dependencies = 5\n# ///\n"), Header::Malformed { line: 2, .. }));
    }

    #[test]
    fn two_blocks_are_an_error_and_other_types_are_not() {
        let block = "# /// script\n# dependencies = []\n# ///\n";
        assert_eq!(read(&format!("{block}\nx = 1\n{block}")), Header::Twice { line: 6 });
        assert_eq!(read("# /// other\n# a = 1\n# ///\n"), Header::None);
        assert!(matches!(read(&format!("# /// other\n# a = 1\n# ///\n\n{block}")), Header::Script(_)));
    }

    #[test]
    fn what_is_almost_a_block_is_reported() {
        for (text, why) in [
            ("# /// script\n# dependencies = []\n", "unclosed"),
            ("# /// script\nx = 1\n# ///\n", "code inside"),
            ("#/// script\n# dependencies = []\n# ///\n", "no space"),
        ] {
            assert!(matches!(read(text), Header::Malformed { .. }), "{why}: {:?}", read(text));
        }
    }
}
