//! robots.txt (RFC 9309): the paths that a site asks programs not to read.

/// The product name that a group of rules may address.
const PRODUCT: &str = "onetool";
/// Maximum number of rules per site.
const MAX_RULES: usize = 2000;

/// The rules of a site that apply to us.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Robots {
    rules: Vec<(String, bool)>,
}

impl Robots {
    /// For a site without a file, or with one that may not be read.
    pub(super) fn allow_all() -> Self {
        Self::default()
    }

    /// For a site that cannot answer now: RFC 9309 forbids access.
    pub(super) fn disallow_all() -> Self {
        Self { rules: vec![("/".to_owned(), false)] }
    }

    pub(super) fn parse(text: &str) -> Self {
        let (mut ours, mut others) = (None::<Vec<_>>, Vec::new());
        // Which groups the current rules belong to; several user-agent lines in a row share the rules that follow.
        let (mut for_us, mut for_all, mut in_rules) = (false, false, false);
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else { continue };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match key.as_str() {
                "user-agent" => {
                    if in_rules {
                        (for_us, for_all, in_rules) = (false, false, false);
                    }
                    for_us |= value.eq_ignore_ascii_case(PRODUCT);
                    for_all |= value == "*";
                    if for_us {
                        ours.get_or_insert_default();
                    }
                }
                "allow" | "disallow" => {
                    in_rules = true;
                    if value.is_empty() {
                        continue;
                    }
                    let rule = (value.to_owned(), key == "allow");
                    if for_us && let Some(ours) = ours.as_mut().filter(|ours| ours.len() < MAX_RULES) {
                        ours.push(rule.clone());
                    }
                    if for_all && others.len() < MAX_RULES {
                        others.push(rule);
                    }
                }
                _ => {}
            }
        }
        Self { rules: ours.unwrap_or(others) }
    }

    /// Whether a path (with its query) may be read: the longest matching rule wins, and among equals one that allows.
    pub(super) fn permits(&self, path: &str) -> bool {
        let matching = self.rules.iter().filter(|(pattern, _)| matches(pattern, path));
        let strongest = matching.max_by_key(|(pattern, allows)| (pattern.len(), *allows));
        strongest.is_none_or(|(_, allows)| *allows)
    }
}

/// Matches a prefix; `*` matches anything, and a final `$` the end. Scans both once for each `*`.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, anchored) = pattern.strip_suffix('$').map_or((pattern, false), |pattern| (pattern, true));
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| path.strip_prefix(first)) else { return false };
    let mut last_is_star = false;
    for part in parts {
        last_is_star = part.is_empty();
        if part.is_empty() {
            continue;
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    if !anchored || last_is_star || rest.is_empty() {
        return true;
    }
    // `*.php$`: a later match may be at the end.
    pattern.rsplit_once('*').is_some_and(|(_, tail)| path.ends_with(tail) && !tail.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_rule_decides() {
        let robots = Robots::parse(
            "User-agent: *\nDisallow: /private # secret\nAllow: /private/open\nDisallow: /*.php$\nDisallow:\n",
        );
        for (path, allowed) in [
            ("/", true),
            ("/private/x", false),
            ("/private/open/x", true),
            ("/a.php", false),
            ("/a.php.php", false),
            ("/a.php?x=1", true),
        ] {
            assert_eq!(robots.permits(path), allowed, "{path}");
        }
    }

    #[test]
    fn a_group_for_us_replaces_the_one_for_all() {
        let text = "user-agent: *\ndisallow: /\n\nUser-Agent: OneTool\nuser-agent: other\nallow: /\ndisallow: /x\n";
        let robots = Robots::parse(text);
        assert!(robots.permits("/a") && !robots.permits("/x"));
        assert!(!Robots::parse("User-agent: *\nDisallow: /").permits("/a"));
        assert!(Robots::parse("User-agent: other\nDisallow: /").permits("/a"));
        assert!(Robots::parse("User-agent: *\nDisallow: /\nUser-agent: onetool\nDisallow:").permits("/a"));
        assert!(Robots::parse("nonsense\n\u{0}:\n").permits("/a"));
        assert!(Robots::allow_all().permits("/") && !Robots::disallow_all().permits("/"));
    }
}
