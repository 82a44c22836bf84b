//! Converts a page to Markdown or plain text: its content, without what surrounds it.

use std::collections::HashSet;

use reqwest::Url;

use super::html::{Document, Node, NodeId};

/// Maximum number of links listed per page.
const MAX_LINKS: usize = 500;
/// An `<article>` or `<main>` with less text than this is not the main content.
const MIN_MAIN_CHARS: usize = 200;

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Markdown,
    /// No markup, no addresses.
    Plain,
}

/// The content of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) text: String,
    /// Text and address, each address once.
    pub(super) links: Vec<(String, String)>,
}

/// Converts a page that was fetched from `base`.
pub(super) fn read(html: &str, base: &Url, style: Style) -> Page {
    let document = Document::parse(html);
    let base = document
        .ids()
        .find(|id| document.name(*id) == "base")
        .and_then(|id| base.join(document.attribute(id, "href")?).ok())
        .unwrap_or_else(|| base.clone());
    let root = main_part(&document);
    let writer = Writer { document: &document, base: &base, style, root };
    let mut blocks = Vec::new();
    writer.blocks(root, &mut blocks);
    let title = title(&document);
    let mut text = blocks.join("\n\n");
    if style == Style::Markdown && !title.is_empty() && !text.lines().any(|line| line.starts_with("# ")) {
        text = format!("# {title}\n\n{text}");
    }
    Page { title, text: text.trim().to_owned(), links: links(&document, root, &base) }
}

fn title(document: &Document) -> String {
    let named =
        |name: &str| document.ids().find(|id| document.name(*id) == name).map(|id| squeezed(&document.text(id)));
    let meta = || {
        let id = document.ids().find(|id| document.attribute(*id, "property") == Some("og:title"))?;
        document.attribute(id, "content").map(squeezed)
    };
    [named("title"), meta(), named("h1")].into_iter().flatten().find(|title| !title.is_empty()).unwrap_or_default()
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `<main>` or the only `<article>`, if it has enough text; else the body.
fn main_part(document: &Document) -> NodeId {
    let is_main = |id: &NodeId| document.name(*id) == "main" || document.attribute(*id, "role") == Some("main");
    let articles: Vec<NodeId> = document.ids().filter(|id| document.name(*id) == "article").collect();
    let only_article = (articles.len() == 1).then(|| articles[0]);
    let body = document.ids().find(|id| document.name(*id) == "body").unwrap_or(0);
    let whole = visible_chars(document, body);
    document
        .ids()
        .find(is_main)
        .into_iter()
        .chain(only_article)
        .find(|id| {
            let chars = visible_chars(document, *id);
            chars >= MIN_MAIN_CHARS || chars * 2 > whole
        })
        .unwrap_or(body)
}

fn visible_chars(document: &Document, id: NodeId) -> usize {
    if is_hidden(document, id) {
        return 0;
    }
    match document.node(id) {
        Node::Text(text) => text.chars().filter(|c| !c.is_whitespace()).count(),
        Node::Element { children, .. } => children.iter().map(|child| visible_chars(document, *child)).sum(),
    }
}

/// Elements that are not content: scripts, navigation, controls, and those that the page itself hides.
fn is_hidden(document: &Document, id: NodeId) -> bool {
    let unread = [
        "script", "style", "noscript", "template", "nav", "svg", "form", "button", "select", "iframe", "head",
        "dialog", "canvas", "object", "audio", "video", "textarea",
    ];
    unread.contains(&document.name(id))
        || document.attribute(id, "hidden").is_some()
        || document.attribute(id, "aria-hidden") == Some("true")
        || matches!(document.attribute(id, "role"), Some("navigation" | "search" | "banner" | "contentinfo"))
        || document.attribute(id, "style").is_some_and(|style| style.replace(' ', "").contains("display:none"))
}

fn links(document: &Document, root: NodeId, base: &Url) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    collect_links(document, root, base, &mut seen, &mut found);
    found
}

fn collect_links(
    document: &Document,
    id: NodeId,
    base: &Url,
    seen: &mut HashSet<String>,
    found: &mut Vec<(String, String)>,
) {
    if found.len() >= MAX_LINKS || is_hidden(document, id) {
        return;
    }
    if document.name(id) == "a"
        && let Some(address) = address(document, id, base)
    {
        let text = squeezed(&document.text(id));
        if !text.is_empty() && seen.insert(address.clone()) {
            found.push((text, address));
        }
    }
    for child in document.children(id) {
        collect_links(document, *child, base, seen, found);
    }
}

/// The target of a link, unless it is not followable or within the same page.
fn address(document: &Document, id: NodeId, base: &Url) -> Option<String> {
    let target = document.attribute(id, "href")?.trim();
    if target.is_empty() || target.starts_with('#') {
        return None;
    }
    let url = base.join(target).ok()?;
    matches!(url.scheme(), "http" | "https" | "mailto").then(|| url.to_string())
}

struct Writer<'a> {
    document: &'a Document,
    base: &'a Url,
    style: Style,
    root: NodeId,
}

impl Writer<'_> {
    /// Appends the content of an element as blocks.
    fn blocks(&self, id: NodeId, out: &mut Vec<String>) {
        let mut line = String::new();
        for child in self.document.children(id) {
            if self.is_unwanted(*child) {
                continue;
            }
            if self.is_block(*child) {
                flush(&mut line, out);
                self.block(*child, out);
            } else {
                self.inline(*child, &mut line);
            }
        }
        flush(&mut line, out);
    }

    fn is_unwanted(&self, id: NodeId) -> bool {
        // A header or footer of the whole page; an article's own is part of it.
        let is_frame = matches!(self.document.name(id), "header" | "footer" | "aside")
            && matches!(self.document.name(self.root), "body" | "#root");
        is_hidden(self.document, id) || is_frame
    }

    fn is_block(&self, id: NodeId) -> bool {
        let name = self.document.name(id);
        matches!(
            name,
            "address"
                | "article"
                | "aside"
                | "blockquote"
                | "body"
                | "caption"
                | "center"
                | "dd"
                | "details"
                | "div"
                | "dl"
                | "dt"
                | "fieldset"
                | "figcaption"
                | "figure"
                | "footer"
                | "h1"
                | "h2"
                | "h3"
                | "h4"
                | "h5"
                | "h6"
                | "header"
                | "hgroup"
                | "hr"
                | "html"
                | "li"
                | "main"
                | "menu"
                | "ol"
                | "p"
                | "pre"
                | "section"
                | "summary"
                | "table"
                | "tbody"
                | "tfoot"
                | "thead"
                | "tr"
                | "ul"
        ) || (!name.is_empty() && self.document.children(id).iter().any(|child| self.is_block(*child)))
    }

    fn block(&self, id: NodeId, out: &mut Vec<String>) {
        let marked = self.style == Style::Markdown;
        match self.document.name(id) {
            name @ ("h1" | "h2" | "h3" | "h4" | "h5" | "h6") => {
                let text = self.line(id);
                if !text.is_empty() {
                    let level = usize::from(name.as_bytes()[1] - b'0');
                    out.push(if marked { format!("{} {text}", "#".repeat(level)) } else { text });
                }
            }
            "hr" if marked => out.push("---".to_owned()),
            "hr" => {}
            "pre" => self.preformatted(id, out),
            "ul" | "ol" | "menu" => {
                let mut lines = Vec::new();
                self.list(id, 0, &mut lines);
                if !lines.is_empty() {
                    out.push(lines.join("\n"));
                }
            }
            "blockquote" => {
                let mut inner = Vec::new();
                self.blocks(id, &mut inner);
                let text = inner.join("\n\n");
                if !text.is_empty() {
                    let quoted = |line: &str| if line.is_empty() { ">".to_owned() } else { format!("> {line}") };
                    out.push(if marked { text.lines().map(quoted).collect::<Vec<_>>().join("\n") } else { text });
                }
            }
            "table" => self.table(id, out),
            "dt" => {
                let text = self.line(id);
                if !text.is_empty() {
                    out.push(if marked { format!("**{text}**") } else { text });
                }
            }
            _ => self.blocks(id, out),
        }
    }

    fn list(&self, id: NodeId, depth: usize, out: &mut Vec<String>) {
        let ordered = self.document.name(id) == "ol";
        let mut number = self.document.attribute(id, "start").and_then(|text| text.parse::<i64>().ok()).unwrap_or(1);
        for item in self.document.children(id) {
            if self.is_unwanted(*item) {
                continue;
            }
            match self.document.name(*item) {
                "li" => {}
                // Lists directly inside lists, as on some pages.
                "ul" | "ol" => {
                    self.list(*item, depth + 1, out);
                    continue;
                }
                _ => continue,
            }
            let (mut text, mut nested) = (Vec::new(), Vec::new());
            let mut line = String::new();
            for child in self.document.children(*item).iter().filter(|child| !self.is_unwanted(**child)) {
                match self.document.name(*child) {
                    "ul" | "ol" | "menu" => self.list(*child, depth + 1, &mut nested),
                    _ if self.is_block(*child) => {
                        flush(&mut line, &mut text);
                        self.block(*child, &mut text);
                    }
                    _ => self.inline(*child, &mut line),
                }
            }
            flush(&mut line, &mut text);
            let indent = "  ".repeat(depth);
            let mark = if ordered { format!("{number}. ") } else { "- ".to_owned() };
            number = number.saturating_add(1);
            let body = text.join("\n").replace('\n', &format!("\n{indent}  "));
            if !body.is_empty() || !nested.is_empty() {
                out.push(format!("{indent}{mark}{body}").trim_end().to_owned());
            }
            out.append(&mut nested);
        }
    }

    fn preformatted(&self, id: NodeId, out: &mut Vec<String>) {
        let text = self.document.text(id);
        let text = text.trim_matches('\n').trim_end();
        if text.is_empty() {
            return;
        }
        if self.style == Style::Plain {
            out.push(text.to_owned());
            return;
        }
        let class = |id: NodeId| self.document.attribute(id, "class").unwrap_or_default();
        let classes = std::iter::once(id).chain(self.document.children(id).iter().copied()).map(class);
        let language = classes
            .flat_map(str::split_whitespace)
            .find_map(|class| class.strip_prefix("language-").or_else(|| class.strip_prefix("lang-")))
            .unwrap_or_default();
        // A fence longer than any in the text.
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        out.push(format!("{fence}{language}\n{text}\n{fence}"));
    }

    fn table(&self, id: NodeId, out: &mut Vec<String>) {
        let mut rows = Vec::new();
        self.rows(id, &mut rows);
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let holds_blocks = rows.iter().flatten().any(|cell| {
            self.document
                .children(*cell)
                .iter()
                .any(|child| matches!(self.document.name(*child), "table" | "ul" | "ol" | "pre" | "h1" | "h2" | "h3"))
        });
        // A single column, or blocks in cells: a layout table.
        if columns < 2 || holds_blocks {
            rows.iter().flatten().for_each(|cell| self.blocks(*cell, out));
            return;
        }
        let cell = |row: &Vec<NodeId>, at: usize| {
            row.get(at).map_or(String::new(), |cell| self.line(*cell).replace('|', "\\|"))
        };
        let mut lines: Vec<String> = rows
            .iter()
            .map(|row| (0..columns).map(|at| cell(row, at)).collect::<Vec<_>>())
            .filter(|cells| cells.iter().any(|cell| !cell.is_empty()))
            .map(|cells| match self.style {
                Style::Markdown => format!("| {} |", cells.join(" | ")),
                Style::Plain => cells.join("\t"),
            })
            .collect();
        if lines.is_empty() {
            return;
        }
        if self.style == Style::Markdown {
            lines.insert(1, format!("|{}", " --- |".repeat(columns)));
        }
        out.push(lines.join("\n"));
    }

    fn rows(&self, id: NodeId, rows: &mut Vec<Vec<NodeId>>) {
        for child in self.document.children(id) {
            match self.document.name(*child) {
                "thead" | "tbody" | "tfoot" => self.rows(*child, rows),
                "tr" => {
                    let cells = self.document.children(*child).iter().copied();
                    rows.push(cells.filter(|cell| matches!(self.document.name(*cell), "td" | "th")).collect());
                }
                _ => {}
            }
        }
    }

    /// The content of an element on one line.
    fn line(&self, id: NodeId) -> String {
        let mut text = String::new();
        for child in self.document.children(id) {
            self.inline(*child, &mut text);
            if self.is_block(*child) && !text.ends_with(' ') {
                text.push(' ');
            }
        }
        squeezed(&text)
    }

    fn inline(&self, id: NodeId, out: &mut String) {
        let document = self.document;
        let name = match document.node(id) {
            Node::Text(text) => {
                push_squeezed(text, out);
                return;
            }
            Node::Element { name, .. } => name.as_str(),
        };
        if is_hidden(document, id) {
            return;
        }
        let marked = self.style == Style::Markdown;
        match name {
            "br" => out.push('\n'),
            "img" => {
                let text = squeezed(document.attribute(id, "alt").unwrap_or_default());
                if !text.is_empty() {
                    out.push_str(&format!("[image: {text}]"));
                }
            }
            "b" | "strong" if marked => self.wrapped(id, "**", out),
            "i" | "em" if marked => self.wrapped(id, "*", out),
            "del" | "s" | "strike" if marked => self.wrapped(id, "~~", out),
            "code" | "kbd" | "samp" | "tt" if marked => {
                let text = squeezed(&document.text(id));
                if !text.is_empty() {
                    let mark = if text.contains('`') { "``" } else { "`" };
                    out.push_str(&format!("{mark}{text}{mark}"));
                }
            }
            "a" if marked => {
                let mut text = String::new();
                document.children(id).iter().for_each(|child| self.inline(*child, &mut text));
                let text = squeezed(&text);
                match address(document, id, self.base) {
                    Some(address) if !text.is_empty() => out.push_str(&format!("[{text}]({address})")),
                    _ => out.push_str(&text),
                }
            }
            _ => document.children(id).iter().for_each(|child| self.inline(*child, out)),
        }
    }

    fn wrapped(&self, id: NodeId, mark: &str, out: &mut String) {
        let mut text = String::new();
        self.document.children(id).iter().for_each(|child| self.inline(*child, &mut text));
        let inner = text.trim();
        if inner.is_empty() {
            out.push_str(&text);
            return;
        }
        // Markers must touch the word; spaces go outside.
        let start = text.len() - text.trim_start().len();
        let end = start + inner.len();
        out.push_str(&format!("{}{mark}{inner}{mark}{}", &text[..start], &text[end..]));
    }
}

/// Appends text with each run of white space as one space.
fn push_squeezed(text: &str, out: &mut String) {
    for c in text.chars() {
        if c.is_whitespace() {
            if !out.is_empty() && !out.ends_with([' ', '\n']) {
                out.push(' ');
            }
        } else {
            out.push(c);
        }
    }
}

fn flush(line: &mut String, out: &mut Vec<String>) {
    let text: Vec<&str> = line.lines().map(str::trim).filter(|part| !part.is_empty()).collect();
    if !text.is_empty() {
        out.push(text.join("\n"));
    }
    line.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(html: &str) -> Page {
        read(html, &Url::parse("https://example.org/dir/page").unwrap(), Style::Markdown)
    }

    #[test]
    fn markup_becomes_markdown() {
        for (html, markdown) in [
            ("<h1>A  b</h1><p>one <b>two </b>three <em>four</em></p>", "# A b\n\none **two** three *four*"),
            (
                "<p>x<a href='../y?a=1'>link</a> <a href='#z'>here</a> <a href='javascript:x()'>bad</a>",
                "x[link](https://example.org/y?a=1) here bad",
            ),
            ("<ul><li>a<ul><li>b</ul><li><p>c</p></ul>", "- a\n  - b\n- c"),
            ("<ol start=3><li>a<li>b</ol>", "3. a\n4. b"),
            (
                "<pre><code class='x language-rust'>fn a() {\n    b\n}\n</code></pre>",
                "```rust\nfn a() {\n    b\n}\n```",
            ),
            (
                "<p>use <code>a_b</code></p><hr><blockquote><p>q</p><p>r</p></blockquote>",
                "use `a_b`\n\n---\n\n> q\n>\n> r",
            ),
            ("<table><tr><th>a<th>b<tr><td>1|2<td><b>x</b></table>", "| a | b |\n| --- | --- |\n| 1\\|2 | **x** |"),
            ("<table><tr><td><h2>layout</h2><p>text</table>", "## layout\n\ntext"),
            ("<dl><dt>term<dd>meaning</dl>", "**term**\n\nmeaning"),
            ("a<br>b <img alt='a cat' src=x> <img src=y>", "a\nb [image: a cat]"),
            ("<script>x</script><style>y</style><nav>menu</nav><p hidden>h</p>text", "text"),
        ] {
            assert_eq!(page(html).text, markdown, "{html}");
        }
    }

    #[test]
    fn the_main_part_is_found_and_the_frame_left_out() {
        let long = "word ".repeat(100);
        let html = format!(
            "<title>T &amp; t</title><header>top</header><nav><a href=/n>n</a></nav><div>{}</div><main><p>{long}</p><a href=/m>m</a></main><footer>end</footer>",
            "other ".repeat(20)
        );
        let found = page(&html);
        assert_eq!(found.title, "T & t");
        assert!(found.text.starts_with("# T & t\n\nword word"), "{}", found.text);
        assert!(!found.text.contains("other") && !found.text.contains("end"));
        assert_eq!(found.links, [("m".to_owned(), "https://example.org/m".to_owned())]);
        let frame = page("<header>top</header><p>text</p><footer>end</footer>");
        assert_eq!(frame.text, "text");
    }

    #[test]
    fn plain_text_has_no_marks() {
        let url = Url::parse("https://example.org/").unwrap();
        let html = "<h2>A</h2><p>one <b>two</b> <a href=/x>three</a></p><ul><li>a</ul><table><tr><td>1<td>2</table>";
        assert_eq!(read(html, &url, Style::Plain).text, "A\n\none two three\n\n- a\n\n1\t2");
    }

    #[test]
    fn base_and_deep_pages() {
        assert_eq!(page("<base href='https://other.org/b/'><a href=c>x</a>").text, "[x](https://other.org/b/c)");
        let deep = format!("{}text", "<div><ul><li><blockquote>".repeat(5000));
        assert!(page(&deep).text.contains("text"));
    }
}
