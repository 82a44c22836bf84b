//! Hints from the form of a value in a query: a URL suggests a tool that takes one.

/// Returns words for the form of a part of a query, if its form means something.
pub(super) fn hints(piece: &str) -> &'static [&'static str] {
    let piece =
        piece.trim_matches(|character: char| matches!(character, ',' | ';' | '"' | '\'' | '(' | ')' | '?' | '!' | '`'));
    let piece = piece.strip_suffix('.').unwrap_or(piece);
    if piece.starts_with("http://") || piece.starts_with("https://") || piece.starts_with("www.") {
        return &["url", "web", "page"];
    }
    if let Some((name, host)) = piece.split_once('@')
        && !name.is_empty()
        && host.contains('.')
    {
        return &["email"];
    }
    if is_address(piece) {
        return &["ip"];
    }
    if is_date(piece) {
        return &["date"];
    }
    if is_path(piece) {
        return &["file", "path"];
    }
    if is_ticket(piece) {
        return &["issue"];
    }
    if is_sum(piece) {
        return &["calculate"];
    }
    if let Some(rest) = piece.strip_prefix('#')
        && rest.starts_with(char::is_alphabetic)
    {
        return &["channel"];
    }
    if piece.strip_prefix("r/").is_some_and(|rest| !rest.is_empty()) {
        return &["subreddit"];
    }
    if piece.strip_prefix('+').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')) {
        return &["phone"];
    }
    if is_repository(piece) {
        return &["repository"];
    }
    &[]
}

/// Whether a number is used in a calculation: "12.5 times", "17 %".
pub(super) fn is_calculated(before: &str, piece: &str) -> bool {
    let is_number = before.bytes().any(|byte| byte.is_ascii_digit())
        && before.bytes().all(|byte| byte.is_ascii_digit() || b".,".contains(&byte));
    is_number && matches!(piece, "times" | "plus" | "minus" | "divided" | "percent" | "%" | "*" | "+" | "/" | "^")
}

fn is_address(piece: &str) -> bool {
    let mut parts = piece.split('.');
    parts.clone().count() == 4 && parts.all(|part| part.parse::<u8>().is_ok())
}

fn is_date(piece: &str) -> bool {
    let bytes = piece.as_bytes();
    bytes.len() == 10
        && bytes
            .iter()
            .enumerate()
            .all(|(at, byte)| if at == 4 || at == 7 { *byte == b'-' } else { byte.is_ascii_digit() })
}

/// `PAY-12`
fn is_ticket(piece: &str) -> bool {
    piece.split_once('-').is_some_and(|(project, number)| {
        project.len() >= 2
            && project.bytes().all(|byte| byte.is_ascii_uppercase())
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// `3*4`, `17%`
fn is_sum(piece: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit();
    piece.len() > 1
        && piece.bytes().any(is_digit)
        && piece.bytes().any(|byte| b"%*+^=/".contains(&byte))
        && piece.bytes().all(|byte| is_digit(byte) || b"%*+^=/()-.,".contains(&byte))
        && !piece.starts_with('+')
}

/// `owner/name`
fn is_repository(piece: &str) -> bool {
    let is_name = |part: &str| {
        part.len() > 1
            && part.bytes().any(|byte| byte.is_ascii_lowercase())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    piece.split_once('/').is_some_and(|(owner, name)| is_name(owner) && is_name(name)) && piece != "and/or"
}

fn is_path(piece: &str) -> bool {
    const EXTENSIONS: [&str; 28] = [
        "csv", "doc", "docx", "gif", "html", "ini", "jpeg", "jpg", "js", "json", "log", "md", "mp3", "mp4", "parquet",
        "pdf", "png", "pptx", "py", "rs", "toml", "ts", "txt", "wav", "xlsx", "xml", "yaml", "yml",
    ];
    if piece.len() > 1 && (piece.starts_with('/') || piece.starts_with("./") || piece.starts_with("~/")) {
        return true;
    }
    piece
        .rsplit_once('.')
        .is_some_and(|(name, extension)| !name.is_empty() && EXTENSIONS.binary_search(&extension).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_recognised() {
        for (piece, expected) in [
            ("https://example.com/a,", "url"),
            ("jane@example.com.", "email"),
            ("10.0.0.1", "ip"),
            ("2025-03-01", "date"),
            ("/var/log", "file"),
            ("report.pdf", "file"),
        ] {
            assert_eq!(hints(piece).first(), Some(&expected), "{piece}");
        }
        for piece in ["a", "1.5", "e.g.", "@jane", "/", "node.foo"] {
            assert!(hints(piece).is_empty(), "{piece}");
        }
    }
}
