//! In which line of a YAML file a key stands, for messages. Block style is found exactly; for the rest the line of the
//! nearest enclosing key is close enough.

/// The line of the key at `path`, from 1.
pub(super) fn line(text: &str, path: &[&str]) -> Option<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let mut from = 0;
    let mut found = None;
    let mut parent_indent: Option<usize> = None;
    for key in path {
        let mut here = None;
        for (index, line) in lines.iter().enumerate().skip(from) {
            let body = line.trim_start();
            if body.is_empty() || body.starts_with('#') {
                continue;
            }
            let indent = line.len() - body.len();
            if parent_indent.is_some_and(|parent| indent <= parent) {
                break;
            }
            let name = body.trim_start_matches("- ").trim_start_matches(['"', '\'']);
            let is_key =
                name.strip_prefix(key).is_some_and(|rest| rest.trim_start_matches(['"', '\'']).starts_with(':'));
            if is_key && (parent_indent.is_some() || indent == 0) {
                here = Some((index, indent));
                break;
            }
        }
        match here {
            Some((index, indent)) => {
                found = Some(index + 1);
                from = index + 1;
                parent_indent = Some(indent);
            }
            None => break,
        }
    }
    found
}

/// `line 5: `, or nothing.
pub(super) fn at(line: Option<usize>) -> String {
    line.map(|line| format!("line {line}: ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_indentation() {
        let text = "a:\n  b: 1\nservers:\n  # c\n  x:\n    url: u\n  y:\n    url: v\n";
        assert_eq!(line(text, &["servers", "y", "url"]), Some(8));
        assert_eq!(line(text, &["servers", "z"]), Some(3));
        assert_eq!(line(text, &["b"]), None);
    }
}
