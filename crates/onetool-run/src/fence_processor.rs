//! Extracts the code from a command: removes trigger words and the fences around the code, keeps fences inside it.

/// Words that a command may start with; they invoke the tool and are not part of the code.
pub const TRIGGERS: &[&str] = &["mcp__onetool__run", "__onetool__run", "__ot__run", "__onetool", "__ot"];

/// A command in a form that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FenceError {
    #[error("invalid syntax: the prefix `!onetool` is not supported")]
    LegacyPrefix,
    #[error("the command is empty")]
    Empty,
    #[error("the command contains a NUL character at byte {0}")]
    Nul(usize),
}

/// Removes triggers and fences.
pub fn strip(command: &str) -> Result<&str, FenceError> {
    if let Some(position) = command.find('\0') {
        return Err(FenceError::Nul(position));
    }
    let mut text = command.strip_prefix('\u{feff}').unwrap_or(command);
    loop {
        let before = text;
        text = strip_trigger(text);
        if text.trim_start().starts_with("!onetool") {
            return Err(FenceError::LegacyPrefix);
        }
        text = strip_fence(text);
        if text == before {
            break;
        }
    }
    if text.trim().is_empty() { Err(FenceError::Empty) } else { Ok(text) }
}

/// Returns the content of the only fenced block in a text that is not itself code: the one that a single opening fence
/// calls Python may contain other fences.
pub fn only_block(text: &str) -> Option<&str> {
    let mut fences = Vec::new();
    let mut of_python = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some(language) = line.trim_start_matches([' ', '\t']).strip_prefix("```") {
            if matches!(language.trim(), "python" | "py" | "python3") {
                of_python.push(fences.len());
            }
            fences.push((at, at + line.len()));
        }
        at += line.len();
    }
    let (start, end) = match (fences.as_slice(), of_python.as_slice()) {
        ([(_, start), (end, _)], _) => (*start, *end),
        (fences, [first]) => (fences.get(*first)?.1, fences.last()?.0),
        _ => return None,
    };
    let block = text.get(start..end)?;
    (!block.trim().is_empty()).then(|| trim_line_end(block))
}

fn strip_trigger(text: &str) -> &str {
    let start = text.trim_start();
    for trigger in TRIGGERS {
        let Some(rest) = start.strip_prefix(trigger) else { continue };
        let next = rest.trim_start_matches([' ', '\t']);
        let whole_word = rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r', '`', '$', '~']);
        // `__ot = 5` assigns to a variable.
        if whole_word && !next.starts_with(['=', '.', ',', ')', ']', '+', '-', '*', '/', '<', '>', ';']) {
            return rest.trim_start_matches([' ', '\t', '\r']).strip_prefix('\n').unwrap_or(next);
        }
    }
    text
}

/// Removes one pair of fences, if the text is wrapped in one.
fn strip_fence(text: &str) -> &str {
    let trimmed = text.trim();
    for mark in ['`', '~'] {
        let width = trimmed.chars().take_while(|&c| c == mark).count();
        if width >= 3 {
            return strip_block(trimmed, mark, width);
        }
        if mark == '`' && (1..=2).contains(&width) {
            return strip_inline(trimmed, width).unwrap_or(text);
        }
    }
    // A closing fence without its opening fence.
    if let Some(body) = trimmed.strip_suffix("\n```")
        && !body.contains("```")
    {
        return body;
    }
    text
}

fn strip_block(text: &str, mark: char, width: usize) -> &str {
    let body = &text[width..];
    let fence: String = std::iter::repeat_n(mark, width).collect();
    let Some((info, code)) = body.split_once('\n') else {
        // All on one line: ```python code```
        let inner = body.trim_end_matches(mark);
        let word = inner.split_whitespace().next().unwrap_or("");
        let is_language = matches!(word, "python" | "py" | "python3" | "Python") && inner.len() > word.len();
        return if is_language { inner.trim_start().strip_prefix(word).unwrap_or(inner).trim() } else { inner.trim() };
    };
    // The text after the opening fence is the language, not code, unless it cannot be a language.
    let code =
        if info.trim().contains(|c: char| !(c.is_alphanumeric() || "_-+.{}= ".contains(c))) { body } else { code };
    let code = code.trim_end();
    match code.strip_suffix(fence.as_str()) {
        Some(inner) => trim_line_end(inner.trim_end_matches(mark).trim_end_matches([' ', '\t'])),
        // Text after the closing fence is not code.
        None => match code.rfind(&format!("\n{fence}")) {
            Some(end) => trim_line_end(&code[..end]),
            None => code,
        },
    }
}

fn trim_line_end(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

fn strip_inline(text: &str, width: usize) -> Option<&str> {
    let inner = text.get(width..text.len().checked_sub(width)?)?;
    let closed = text.len() > 2 * width && text[text.len() - width..].chars().all(|c| c == '`');
    (closed && !inner.contains('`')).then(|| inner.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eq(command: &str, code: &str) {
        assert_eq!(strip(command), Ok(code), "{command:?}");
    }

    #[test]
    fn fences_of_every_form_go() {
        eq("```python\n1+1\n```", "1+1");
        eq("```\n1+1\n```", "1+1");
        eq("```py\r\n1+1\r\n```", "1+1");
        eq("  ```python\n  1+1\n  ```  ", "  1+1");
        eq("~~~\n1\n~~~", "1");
        eq("`1+1`", "1+1");
        eq("``1+1``", "1+1");
        eq("```1+1```", "1+1");
        eq("```python 1+1```", "1+1");
        eq("````python\nx = '```'\n````", "x = '```'");
        eq("```python\n1\n```\nThat was it.", "1");
    }

    #[test]
    fn fences_as_data_stay() {
        eq("x = '''```\ncode\n```'''\nx", "x = '''```\ncode\n```'''\nx");
        eq("```python\ns = \"\"\"\n```js\na\n```\n\"\"\"\ns\n```", "s = \"\"\"\n```js\na\n```\n\"\"\"\ns");
        eq("x = `1`", "x = `1`");
    }

    #[test]
    fn a_block_of_python_may_hold_other_blocks() {
        let text = "Here:\n```python\nx = '''\n```js\n1\n```\n'''\n```\nDone.";
        assert_eq!(only_block(text), Some("x = '''\n```js\n1\n```\n'''"));
        assert_eq!(only_block("a\n```py\n1\n```\nb\n```py\n2\n```"), None);
        assert_eq!(only_block("```js\n1\n```\nb\n```py\n2\n```\n"), Some("2"));
    }

    #[test]
    fn one_lost_fence_does_no_harm() {
        eq("```python\n1+1", "1+1");
        eq("1+1\n```", "1+1");
    }

    #[test]
    fn triggers_go_as_whole_words_only() {
        eq("__ot 1+1", "1+1");
        eq("__onetool__run\n```python\n1+1\n```", "1+1");
        eq("mcp__onetool__run `2`", "2");
        eq("__ot $x a=1", "$x a=1");
        eq("__other(1)", "__other(1)");
        eq("__ot = 5", "__ot = 5");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(strip("!onetool upper(text='x')"), Err(FenceError::LegacyPrefix));
        assert_eq!(strip("```python\n```"), Err(FenceError::Empty));
        assert_eq!(strip("  \n "), Err(FenceError::Empty));
        assert_eq!(strip("a\0b"), Err(FenceError::Nul(1)));
    }
}
