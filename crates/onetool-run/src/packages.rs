//! Hints for modules that cannot be imported: which key adds the package, and what is available instead.

/// The packages in the configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Packages<'a> {
    pub(crate) configured: &'a [String],
    /// Why they cannot be imported.
    pub(crate) problem: Option<String>,
    /// Whether the configuration allows the fast engine alone.
    pub(crate) is_fast_only: bool,
}

/// Modules whose package has a different name.
const PACKAGES: &[(&str, &str)] = &[
    ("Crypto", "pycryptodome"),
    ("PIL", "pillow"),
    ("bs4", "beautifulsoup4"),
    ("cv2", "opencv-python-headless"),
    ("dateutil", "python-dateutil"),
    ("docx", "python-docx"),
    ("dotenv", "python-dotenv"),
    ("fitz", "pymupdf"),
    ("jwt", "pyjwt"),
    ("pptx", "python-pptx"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("yaml", "pyyaml"),
];

/// Alternatives to modules that need no package.
const ALTERNATIVES: &[(&str, &str)] = &[
    ("bs4", "html.parser of the standard library, or web.fetch(url), which gives the text of a page"),
    ("dateutil", "datetime and zoneinfo of the standard library"),
    ("dotenv", "secrets belong in secrets.yaml; code does not see them"),
    ("lxml", "xml.etree.ElementTree of the standard library"),
    ("matplotlib", "a table or numbers as the value"),
    ("numpy", "math, statistics and lists of the standard library"),
    ("pandas", "csv, statistics and collections of the standard library"),
    ("polars", "csv, statistics and collections of the standard library"),
    ("pytz", "zoneinfo of the standard library"),
    ("scipy", "math and statistics of the standard library"),
    ("simplejson", "json of the standard library"),
    ("tabulate", "__format__ = 'yml', or str.ljust"),
    ("tomli", "tomllib of the standard library"),
    ("tqdm", "print, which is shown while the code runs"),
    ("ujson", "json of the standard library"),
];

/// Modules that need a network, which code in the sandbox never has.
const NETWORK: &[&str] = &[
    "aiohttp",
    "boto3",
    "botocore",
    "httpx",
    "openai",
    "anthropic",
    "paramiko",
    "playwright",
    "psycopg2",
    "psycopg",
    "pymongo",
    "redis",
    "requests",
    "selenium",
    "urllib3",
    "websockets",
];

const NO_NETWORK: &str = "code in the sandbox has no network; call a tool: web.fetch(url), a configured HTTP tool or a server's tool; ot.packs() lists them";

impl Packages<'_> {
    /// The hint for the message of a ModuleNotFoundError.
    pub(crate) fn missing(&self, message: &str) -> Option<String> {
        let module = message.strip_prefix("No module named '")?.split(['\'', '.']).next()?;
        if NETWORK.contains(&module) {
            return Some(NO_NETWORK.to_owned());
        }
        if self.is_fast_only {
            let what = if onetool_sandbox::is_standard_module(module) { "module" } else { "package" };
            return Some(format!(
                "the fast engine lacks this {what}, and run.engine allows no other; set run.engine: auto"
            ));
        }
        let package = PACKAGES.iter().find(|(known, _)| *known == module).map_or(module, |(_, package)| package);
        let is_configured = self.configured.iter().any(|entry| names(entry, package));
        let at_hand = ALTERNATIVES.iter().find(|(known, _)| *known == module).map(|(_, instead)| *instead);
        let at_hand =
            at_hand.unwrap_or("Python's standard library, and tools, which need no import: ot.packs() lists them");
        let key = match &self.problem {
            Some(problem) => format!("the packages of run.packages are not there: {}", first_line(problem)),
            None if is_configured => format!("run.packages has {package}, which has no module {module}"),
            None => {
                let mut all: Vec<&str> = self.configured.iter().map(String::as_str).collect();
                all.push(package);
                format!("to import it, the user adds it to the configuration: run: {{packages: [{}]}}", all.join(", "))
            }
        };
        Some(format!("{key}; at hand now: {at_hand}"))
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

/// Whether a requirement is for a package: `-`, `_` and `.` are equivalent, and case is ignored.
fn names(requirement: &str, package: &str) -> bool {
    let end = requirement.find(|c: char| !(c.is_alphanumeric() || "-_.".contains(c))).unwrap_or(requirement.len());
    let normal = |name: &str| name.to_lowercase().replace(['_', '.'], "-");
    normal(&requirement[..end]) == normal(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_and_what_is_at_hand_are_named() {
        let none = Packages::default();
        let hint = none.missing("No module named 'pandas'").unwrap();
        assert!(hint.contains("run: {packages: [pandas]}") && hint.contains("csv"), "{hint}");
        let fast = Packages { is_fast_only: true, ..Packages::default() };
        assert!(fast.missing("No module named 'csv'").unwrap().contains("run.engine: auto"));
        let hint = none.missing("No module named 'sklearn.linear_model'").unwrap();
        assert!(hint.contains("scikit-learn"), "{hint}");
        assert!(none.missing("No module named 'requests'").unwrap().contains("web.fetch"));
        let configured = ["numpy==2.*".to_owned(), "Scikit_Learn".to_owned()];
        let some = Packages { configured: &configured, ..Packages::default() };
        assert!(some.missing("No module named 'pandas'").unwrap().contains("[numpy==2.*, Scikit_Learn, pandas]"));
        assert!(some.missing("No module named 'sklearn'").unwrap().contains("has no module"));
        let broken = Packages { problem: Some("uv failed\nlong".to_owned()), ..some.clone() };
        assert!(broken.missing("No module named 'numpy'").unwrap().contains("uv failed; at hand"));
    }
}
