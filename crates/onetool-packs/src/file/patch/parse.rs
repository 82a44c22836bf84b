//! Parses a unified diff as written by git and other programs, or by models: with wrong counts, without line numbers,
//! or inside a code fence.

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePatch {
    /// `None` for a file that is created.
    pub(super) old: Option<String>,
    /// `None` for a file that is deleted.
    pub(super) new: Option<String>,
    pub(super) hunks: Vec<Hunk>,
    /// The mode that the patch gives the file, e.g. 0o100755.
    pub(super) mode: Option<u32>,
}

/// One group of changed lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hunk {
    /// The first old line, counted from 1, if the patch names it; 0 for an empty file.
    pub(super) old_start: Option<usize>,
    pub(super) lines: Vec<HunkLine>,
    /// The line of the patch where the hunk starts.
    pub(super) at: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HunkLine {
    pub(super) kind: Kind,
    /// Without the newline.
    pub(super) text: String,
    /// Whether the patch says that no newline follows.
    pub(super) unended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Context,
    Removed,
    Added,
}

/// Why a text is not a patch, and at which line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParseError {
    pub(super) line: usize,
    pub(super) what: String,
}

fn error<T>(line: usize, what: impl Into<String>) -> Result<T, ParseError> {
    Err(ParseError { line, what: what.into() })
}

/// Parses the files that a patch changes, in order.
pub(super) fn parse(text: &str) -> Result<Vec<FilePatch>, ParseError> {
    if text.lines().any(|line| line.starts_with("*** Begin Patch")) {
        return error(1, "this is not a unified diff");
    }
    // `\n` alone ends a line: a carriage return belongs to the line's text.
    let lines: Vec<&str> = text.strip_suffix('\n').unwrap_or(text).split('\n').collect();
    let mut files: Vec<FilePatch> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at].trim_end_matches('\r');
        if let Some(names) = line.strip_prefix("diff --git ") {
            let (file, next) = git_header(&lines, at, names)?;
            at = next;
            files.push(file);
        } else if is_file_header(&lines, at) {
            let (old, new) = names(&lines[at][4..], &lines[at + 1][4..]);
            if old.is_none() && new.is_none() {
                return error(at + 1, "both names are /dev/null");
            }
            files.push(FilePatch { old, new, hunks: Vec::new(), mode: None });
            at += 2;
        } else if line.starts_with("@@") {
            let Some(file) = files.last_mut() else {
                return error(at + 1, "a hunk before any `--- a/file` and `+++ b/file` lines");
            };
            let (hunk, next) = hunk(&lines, at)?;
            file.hunks.push(hunk);
            at = next;
        } else {
            at += 1;
        }
    }
    if files.is_empty() {
        return error(1, "no `--- a/file` and `+++ b/file` lines in it");
    }
    for file in &files {
        if file.hunks.is_empty() && file.old.is_some() && file.old == file.new && file.mode.is_none() {
            return error(1, format!("no hunk for {}", file.old.as_deref().unwrap_or_default()));
        }
    }
    Ok(files)
}

fn is_file_header(lines: &[&str], at: usize) -> bool {
    lines[at].starts_with("--- ") && lines.get(at + 1).is_some_and(|next| next.starts_with("+++ "))
}

/// The lines from `diff --git` to the first hunk.
fn git_header(lines: &[&str], start: usize, git_names: &str) -> Result<(FilePatch, usize), ParseError> {
    let (mut old, mut new) = same_name(git_names).map_or((None, None), |name| (Some(name.clone()), Some(name)));
    let mut mode = None;
    let mut at = start + 1;
    while at < lines.len() {
        let line = lines[at].trim_end_matches('\r');
        if is_file_header(lines, at) {
            (old, new) = names(&lines[at][4..], &lines[at + 1][4..]);
            at += 2;
            break;
        } else if let Some(digits) = line.strip_prefix("new file mode ").or_else(|| line.strip_prefix("new mode ")) {
            mode = u32::from_str_radix(digits.trim(), 8).ok();
            if line.starts_with("new file") {
                old = None;
            }
        } else if line.starts_with("deleted file mode ") {
            new = None;
        } else if let Some(name) = line.strip_prefix("rename from ") {
            old = Some(unquote(name));
        } else if let Some(name) = line.strip_prefix("rename to ") {
            new = Some(unquote(name));
        } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
            return error(at + 1, "binary changes can't be applied");
        } else if line.starts_with("copy from ") {
            return error(at + 1, "copies can't be applied");
        } else if !["index ", "old mode ", "similarity index ", "dissimilarity index "]
            .iter()
            .any(|word| line.starts_with(word))
        {
            break;
        }
        at += 1;
    }
    if old.is_none() && new.is_none() {
        return error(start + 1, "the names of the file can't be read");
    }
    if mode.is_some_and(|mode| mode & 0o170_000 != 0o100_000) {
        return error(start + 1, "links and submodules can't be applied");
    }
    Ok((FilePatch { old, new, hunks: Vec::new(), mode }, at))
}

/// The name in `a/name b/name`, if both are the same.
fn same_name(names: &str) -> Option<String> {
    let names = names.trim_end_matches('\r');
    if let Some(inner) = names.strip_prefix('"') {
        let end = inner.find("\" \"")? + 2;
        return Some(unquote(&names[..end]).strip_prefix("a/")?.to_owned());
    }
    let half = names.len().checked_sub(1)? / 2;
    let (old, new) = (names.get(..half)?, names.get(half + 1..)?);
    let old = old.strip_prefix("a/")?;
    (new.strip_prefix("b/")? == old).then(|| old.to_owned())
}

/// The names of the two sides; `None` for `/dev/null`. The prefixes `a/` and `b/` are removed if both sides have them.
fn names(old: &str, new: &str) -> (Option<String>, Option<String>) {
    let (old, new) = (name(old), name(new));
    let stripped =
        |name: &Option<String>, side: &str| name.as_ref().and_then(|name| name.strip_prefix(side).map(str::to_owned));
    let fits = |name: &Option<String>, side: &str| name.as_ref().is_none_or(|name| name.starts_with(side));
    if fits(&old, "a/") && fits(&new, "b/") { (stripped(&old, "a/"), stripped(&new, "b/")) } else { (old, new) }
}

fn name(field: &str) -> Option<String> {
    let field = field.trim_end_matches('\r');
    let name = if field.starts_with('"') {
        unquote(field)
    } else {
        // A tab ends the name; a timestamp may follow.
        field.split('\t').next().unwrap_or(field).trim_end().to_owned()
    };
    (name != "/dev/null").then_some(name)
}

/// Unquotes a name with git's escapes.
fn unquote(field: &str) -> String {
    let Some(inner) = field.strip_prefix('"').and_then(|rest| rest.rfind('"').map(|end| &rest[..end])) else {
        return field.to_owned();
    };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.bytes().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'r') => bytes.push(b'\r'),
            Some(digit @ b'0'..=b'3') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    if let Some(next) = rest.next_if(|next| (b'0'..=b'7').contains(next)) {
                        value = value * 8 + u32::from(next - b'0');
                    }
                }
                bytes.push(value as u8);
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Parses the hunk at a line; returns where it ends too.
fn hunk(lines: &[&str], start: usize) -> Result<(Hunk, usize), ParseError> {
    let numbers = numbers(lines[start]);
    let counted = numbers.and_then(|(_, old, new)| counted(lines, start + 1, old, new));
    // Wrong counts are common: then the lines themselves determine where the hunk ends.
    let (body, next) = counted.unwrap_or_else(|| until_end(lines, start + 1));
    if body.iter().all(|line| line.kind == Kind::Context) {
        return error(start + 1, "the hunk changes nothing");
    }
    Ok((Hunk { old_start: numbers.map(|(first, _, _)| first), lines: body, at: start + 1 }, next))
}

/// Parses `@@ -first,count +first,count @@`: the old first line and both counts.
fn numbers(header: &str) -> Option<(usize, usize, usize)> {
    let inner = header.strip_prefix("@@ -")?;
    let (old, rest) = inner.split_once(" +")?;
    let new = rest.split(" @@").next()?;
    let range = |text: &str| -> Option<(usize, usize)> {
        match text.split_once(',') {
            Some((first, count)) => Some((first.trim().parse().ok()?, count.trim().parse().ok()?)),
            None => Some((text.trim().parse().ok()?, 1)),
        }
    };
    let (first, old_count) = range(old)?;
    Some((first, old_count, range(new)?.1))
}

/// Reads as many lines as the header says; `None` if there are fewer or more.
fn counted(lines: &[&str], start: usize, mut old: usize, mut new: usize) -> Option<(Vec<HunkLine>, usize)> {
    let mut body = Vec::new();
    let mut at = start;
    while old > 0 || new > 0 || lines.get(at).is_some_and(|line| line.starts_with('\\')) {
        let line = lines.get(at)?;
        match hunk_line(line) {
            Some(parsed) => {
                match parsed.kind {
                    Kind::Context => (old, new) = (old.checked_sub(1)?, new.checked_sub(1)?),
                    Kind::Removed => old = old.checked_sub(1)?,
                    Kind::Added => new = new.checked_sub(1)?,
                }
                body.push(parsed);
            }
            None if line.starts_with('\\') => body.last_mut()?.unended = true,
            None => return None,
        }
        at += 1;
    }
    let ends = match lines.get(at) {
        // `-- ` precedes the signature of a mailed patch.
        None | Some(&"-- " | &"--") => true,
        Some(line) => !line.starts_with([' ', '+', '-']) || is_file_header(lines, at),
    };
    ends.then_some((body, at))
}

fn until_end(lines: &[&str], start: usize) -> (Vec<HunkLine>, usize) {
    let mut body: Vec<HunkLine> = Vec::new();
    let mut at = start;
    while let Some(line) = lines.get(at) {
        if line.starts_with("@@") || line.starts_with("diff --git ") || is_file_header(lines, at) {
            break;
        }
        match hunk_line(line) {
            Some(parsed) => body.push(parsed),
            None if line.starts_with('\\') => {
                if let Some(last) = body.last_mut() {
                    last.unended = true;
                }
            }
            None => break,
        }
        at += 1;
    }
    // Empty lines after a patch are not context.
    while lines.get(at - 1).is_some_and(|line| line.trim_end_matches('\r').is_empty()) && !body.is_empty() {
        body.pop();
        at -= 1;
    }
    (body, at.max(start))
}

fn hunk_line(line: &str) -> Option<HunkLine> {
    let (kind, text) = match line.as_bytes().first() {
        // Editors remove the space of an empty context line.
        None => (Kind::Context, ""),
        Some(b'\r') if line.len() == 1 => (Kind::Context, line),
        Some(b' ') => (Kind::Context, &line[1..]),
        Some(b'+') => (Kind::Added, &line[1..]),
        Some(b'-') => (Kind::Removed, &line[1..]),
        Some(_) => return None,
    };
    Some(HunkLine { kind, text: text.to_owned(), unended: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> FilePatch {
        let mut files = parse(text).unwrap();
        assert_eq!(files.len(), 1);
        files.remove(0)
    }

    #[test]
    fn names_lose_their_sides() {
        let patch = |old: &str, new: &str| {
            let file = only(&format!("--- {old}\n+++ {new}\n@@ -1 +1 @@\n-a\n+b\n"));
            (file.old.unwrap_or_default(), file.new.unwrap_or_default())
        };
        assert_eq!(patch("a/x y\t", "b/x y\t2026-01-01"), ("x y".into(), "x y".into()));
        assert_eq!(patch("src/x", "src/x"), ("src/x".into(), "src/x".into()));
        assert_eq!(patch("/dev/null", "b/x"), (String::new(), "x".into()));
        assert_eq!(patch("\"a/\\303\\251\\\"\\t\"", "\"b/\\303\\251\\\"\\t\""), ("é\"\t".into(), "é\"\t".into()));
    }

    #[test]
    fn wrong_counts_are_counted_again() {
        let right = only("--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n a\n+b\n c\n");
        for header in ["@@ -1,9 +1,9 @@", "@@ -1,1 +1,1 @@ fn x()"] {
            let file = only(&format!("--- a/x\n+++ b/x\n{header}\n a\n+b\n c\n\n"));
            assert_eq!(file.hunks[0].lines, right.hunks[0].lines, "{header}");
        }
        let bare = only("```diff\n--- a/x\n+++ b/x\n@@\n a\n+b\n c\n```\n");
        assert_eq!((bare.hunks[0].old_start, &bare.hunks[0].lines), (None, &right.hunks[0].lines));
    }

    #[test]
    fn a_removed_line_may_look_like_a_header() {
        let file = only("--- a/x\n+++ b/x\n@@ -1,2 +1,1 @@\n--- old\n b\n");
        assert_eq!(file.hunks[0].lines[0].text, "-- old");
        let mailed = only("--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-a\n+b\n-- \n2.40\n");
        assert_eq!(mailed.hunks[0].lines.len(), 2);
    }

    #[test]
    fn what_is_no_patch_says_why() {
        for (text, what) in [
            ("hello", "no `--- a/file`"),
            ("@@ -1 +1 @@\n-a\n+b\n", "before any"),
            ("--- a/x\n+++ b/x\n", "no hunk"),
            ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n a\n", "changes nothing"),
            ("diff --git a/x b/x\nindex 1..2\nBinary files a/x and b/x differ\n", "binary"),
            ("diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n", "links"),
            ("*** Begin Patch\n", "not a unified diff"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.what.contains(what), "{text:?}: {error:?}");
        }
    }
}
