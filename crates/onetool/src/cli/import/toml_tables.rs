//! The server tables in Codex' configuration: `[mcp_servers.name]` and those below.

/// Removes the server tables, and appends `blocks`.
pub fn with_servers(text: &str, blocks: &str) -> String {
    let kept: String =
        sections(text).into_iter().filter(|section| section.server.is_none()).map(|section| section.text).collect();
    let kept = kept.trim_end();
    match (kept.is_empty(), blocks.is_empty()) {
        (true, _) => blocks.to_owned(),
        (false, true) => format!("{kept}\n"),
        (false, false) => format!("{kept}\n\n{blocks}"),
    }
}

/// The tables of the selected servers.
pub fn servers(text: &str, is_meant: &dyn Fn(&str) -> bool) -> String {
    sections(text)
        .into_iter()
        .filter(|section| section.server.as_deref().is_some_and(is_meant))
        .map(|section| section.text)
        .collect()
}

struct Section {
    /// The server of the table; empty for `[mcp_servers]` itself.
    server: Option<String>,
    text: String,
}

/// Splits the text before the header of each table.
fn sections(text: &str) -> Vec<Section> {
    let mut sections = vec![Section { server: None, text: String::new() }];
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            // A comment directly above a table belongs to it.
            let text = sections.last_mut().map(|section| take_comments(&mut section.text)).unwrap_or_default();
            sections.push(Section { server: server_of(line), text });
        }
        if let Some(section) = sections.last_mut() {
            section.text.push_str(line);
        }
    }
    if let Some(last) = sections.last_mut().filter(|section| !section.text.is_empty() && !section.text.ends_with('\n'))
    {
        last.text.push('\n');
    }
    sections
}

/// Removes and returns the comments at the end of a text.
fn take_comments(text: &mut String) -> String {
    let mut start = text.len();
    while let Some(line) =
        text[..start].split_inclusive('\n').next_back().filter(|line| line.trim_start().starts_with('#'))
    {
        start -= line.len();
    }
    text.split_off(start)
}

/// The server named in a table's header.
fn server_of(head: &str) -> Option<String> {
    let rest = head.trim_start().trim_start_matches('[').trim_start().strip_prefix("mcp_servers")?.trim_start();
    let Some(rest) = rest.strip_prefix('.') else { return rest.starts_with(']').then(String::new) };
    let rest = rest.trim_start();
    let name = match rest.chars().next()? {
        quote @ ('"' | '\'') => rest[1..].split(quote).next()?,
        _ => rest.split(['.', ']', ' ']).next()?,
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "model = \"x\" # mine\n\n[mcp_servers.a]\ncommand = \"a\"\n[mcp_servers.a.env]\nK = \"v\"\n\n# About it.\n[other]\ny = 1\n[mcp_servers.\"b.c\"]\nurl = \"u\"";

    #[test]
    fn tables_of_servers_are_replaced_and_the_rest_stays() {
        let changed = with_servers(TEXT, "[mcp_servers.onetool]\ncommand = \"onetool\"\n");
        assert_eq!(
            changed,
            "model = \"x\" # mine\n\n# About it.\n[other]\ny = 1\n\n[mcp_servers.onetool]\ncommand = \"onetool\"\n"
        );
        assert_eq!(with_servers(TEXT, ""), "model = \"x\" # mine\n\n# About it.\n[other]\ny = 1\n");
        assert_eq!(with_servers("", "[a]\n"), "[a]\n");
    }

    #[test]
    fn tables_are_found_by_the_name_of_their_server() {
        let of = |meant: &'static str| servers(TEXT, &move |name| name == meant);
        assert_eq!(of("a"), "[mcp_servers.a]\ncommand = \"a\"\n[mcp_servers.a.env]\nK = \"v\"\n\n");
        assert_eq!(of("b.c"), "[mcp_servers.\"b.c\"]\nurl = \"u\"\n");
        assert_eq!(of("other"), "");
    }
}
