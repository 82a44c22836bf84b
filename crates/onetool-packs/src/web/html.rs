//! Parses HTML into a tree like a browser: nothing is an error.
//!
//! Time and memory are linear in the text: each tag is visited once, and elements deeper than [`MAX_DEPTH`] become
//! children of the one at that depth.

use super::entities;

/// Deeper elements are flattened, so that walking the tree may recurse.
pub(super) const MAX_DEPTH: usize = 100;
/// Further nodes are dropped; a normal page has a few thousand.
const MAX_NODES: usize = 400_000;
const MAX_ATTRIBUTES: usize = 64;

/// The index of a node in its [`Document`].
pub(super) type NodeId = usize;

#[derive(Debug)]
pub(super) enum Node {
    Element { name: String, attributes: Vec<(String, String)>, children: Vec<NodeId> },
    Text(String),
}

/// A page. Node 0 is its root.
#[derive(Debug)]
pub(super) struct Document {
    nodes: Vec<Node>,
}

impl Document {
    pub(super) fn parse(text: &str) -> Self {
        let mut builder = Builder {
            nodes: vec![Node::Element { name: "#root".to_owned(), attributes: Vec::new(), children: Vec::new() }],
            open: vec![0],
        };
        builder.read(text);
        Self { nodes: builder.nodes }
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    pub(super) fn children(&self, id: NodeId) -> &[NodeId] {
        match &self.nodes[id] {
            Node::Element { children, .. } => children,
            Node::Text(_) => &[],
        }
    }

    pub(super) fn name(&self, id: NodeId) -> &str {
        match &self.nodes[id] {
            Node::Element { name, .. } => name,
            Node::Text(_) => "",
        }
    }

    pub(super) fn attribute(&self, id: NodeId, wanted: &str) -> Option<&str> {
        match &self.nodes[id] {
            Node::Element { attributes, .. } => {
                attributes.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
            }
            Node::Text(_) => None,
        }
    }

    /// All nodes in document order.
    pub(super) fn ids(&self) -> impl Iterator<Item = NodeId> {
        0..self.nodes.len()
    }

    /// The raw text of a node and its descendants.
    pub(super) fn text(&self, id: NodeId) -> String {
        let mut out = String::new();
        self.push_text(id, &mut out);
        out
    }

    fn push_text(&self, id: NodeId, out: &mut String) {
        match &self.nodes[id] {
            Node::Text(text) => out.push_str(text),
            Node::Element { children, .. } => children.iter().for_each(|child| self.push_text(*child, out)),
        }
    }
}

/// Elements without content.
const VOID: &[&str] =
    &["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"];
/// Elements whose content is not markup.
const RAW: &[&str] = &["script", "style", "xmp", "iframe", "noembed", "noframes", "textarea", "title"];
/// Elements that end an open paragraph.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "details",
    "div",
    "dl",
    "fieldset",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "ul",
];

struct Builder {
    nodes: Vec<Node>,
    /// From the root to the innermost open element.
    open: Vec<NodeId>,
}

impl Builder {
    fn read(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() && self.nodes.len() < MAX_NODES {
            let Some(at) = rest.find('<') else {
                self.text(rest);
                return;
            };
            if at > 0 {
                self.text(&rest[..at]);
            }
            rest = &rest[at..];
            rest = self.markup(rest);
        }
    }

    /// Parses markup that begins with `<`, and returns the rest.
    fn markup<'a>(&mut self, text: &'a str) -> &'a str {
        let after = &text[1..];
        if let Some(comment) = after.strip_prefix("!--") {
            return comment.find("-->").map_or("", |end| &comment[end + 3..]);
        }
        match after.as_bytes().first() {
            Some(b'!' | b'?') => after.find('>').map_or("", |end| &after[end + 1..]),
            Some(b'/') => {
                let name = tag_name(&after[1..]);
                if !name.is_empty() {
                    self.close(&name.to_ascii_lowercase());
                }
                after.find('>').map_or("", |end| &after[end + 1..])
            }
            Some(byte) if byte.is_ascii_alphabetic() => self.start(after),
            _ => {
                self.text("<");
                after
            }
        }
    }

    fn start<'a>(&mut self, text: &'a str) -> &'a str {
        let name = tag_name(text);
        let (attributes, mut rest) = attributes(&text[name.len()..]);
        let name = name.to_ascii_lowercase();
        self.imply_ends(&name);
        let is_void = VOID.contains(&name.as_str());
        let raw = RAW.contains(&name.as_str());
        let id = self.push(Node::Element { name: name.clone(), attributes, children: Vec::new() });
        if raw {
            let end = find_end_tag(rest, &name);
            let content = &rest[..end];
            let readable = matches!(name.as_str(), "title" | "textarea");
            self.open.push(id);
            if readable {
                self.text(content);
            }
            self.open.pop();
            rest = rest[end..].find('>').map_or("", |close| &rest[end + close + 1..]);
        } else if !is_void && self.open.len() < MAX_DEPTH {
            self.open.push(id);
        }
        rest
    }

    /// Closes elements whose end tags HTML makes optional.
    fn imply_ends(&mut self, name: &str) {
        let (ends, within): (&[&str], &[&str]) = match name {
            "li" => (&["li"], &["ul", "ol", "menu"]),
            "dt" | "dd" => (&["dt", "dd"], &["dl"]),
            "tr" => (&["tr"], &["table"]),
            "td" | "th" => (&["td", "th"], &["tr", "table"]),
            "thead" | "tbody" | "tfoot" => (&["thead", "tbody", "tfoot"], &["table"]),
            "option" => (&["option"], &["select"]),
            _ => (&[], &[]),
        };
        if BLOCKS.contains(&name) {
            self.close_up_to(&["p"], &["td", "th", "li", "div", "section", "article", "main", "body", "blockquote"]);
        }
        if !ends.is_empty() {
            self.close_up_to(ends, within);
        }
    }

    /// Closes the innermost of `names`, unless one of `borders` is in between.
    fn close_up_to(&mut self, names: &[&str], borders: &[&str]) {
        for at in (1..self.open.len()).rev() {
            let name = self.name_at(at);
            if names.contains(&name) {
                self.open.truncate(at);
                return;
            }
            if borders.contains(&name) {
                return;
            }
        }
    }

    fn close(&mut self, name: &str) {
        if let Some(at) = (1..self.open.len()).rev().find(|at| self.name_at(*at) == name) {
            self.open.truncate(at);
        }
    }

    fn name_at(&self, at: usize) -> &str {
        match &self.nodes[self.open[at]] {
            Node::Element { name, .. } => name,
            Node::Text(_) => "",
        }
    }

    fn text(&mut self, text: &str) {
        let text = entities::decode(text);
        self.push(Node::Text(text));
    }

    fn push(&mut self, node: Node) -> NodeId {
        let id = self.nodes.len();
        self.nodes.push(node);
        let parent = self.open.last().copied().unwrap_or(0);
        if let Node::Element { children, .. } = &mut self.nodes[parent] {
            children.push(id);
        }
        id
    }
}

fn tag_name(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == ':')).unwrap_or(text.len());
    &text[..end]
}

/// Parses the attributes of a tag; returns the text after its `>` too.
fn attributes(text: &str) -> (Vec<(String, String)>, &str) {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        match rest.as_bytes().first() {
            None => return (found, ""),
            Some(b'>') => return (found, &rest[1..]),
            _ => {}
        }
        // A name may begin with any character, which guarantees progress.
        let first = rest.chars().next().map_or(1, char::len_utf8);
        let stop = |c: char| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/');
        let end = rest[first..].find(stop).map_or(rest.len(), |at| first + at);
        let name = rest[..end].to_ascii_lowercase();
        rest = rest[end..].trim_start_matches(|c: char| c.is_ascii_whitespace());
        let mut value = "";
        if let Some(after) = rest.strip_prefix('=') {
            let after = after.trim_start_matches(|c: char| c.is_ascii_whitespace());
            let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
            let (content, remaining) = match quote {
                Some(quote) => after[1..].split_once(quote).unwrap_or((&after[1..], "")),
                None => {
                    let end = after.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(after.len());
                    after.split_at(end)
                }
            };
            (value, rest) = (content, remaining);
        }
        if found.len() < MAX_ATTRIBUTES {
            found.push((name, entities::decode(value)));
        }
    }
}

/// Finds `</name`, ignoring case, or else the end of the text.
fn find_end_tag(text: &str, name: &str) -> usize {
    let mut from = 0;
    while let Some(at) = text[from..].find("</") {
        let at = from + at;
        let candidate = text.as_bytes().get(at + 2..at + 2 + name.len());
        if candidate.is_some_and(|candidate| candidate.eq_ignore_ascii_case(name.as_bytes())) {
            return at;
        }
        from = at + 2;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree as text: `name(child child)`, text in quotes.
    fn shown(text: &str) -> String {
        fn show(document: &Document, id: NodeId, out: &mut String) {
            match document.node(id) {
                Node::Text(text) => out.push_str(&format!("{text:?}")),
                Node::Element { name, children, .. } => {
                    out.push_str(name);
                    out.push('(');
                    for child in children {
                        show(document, *child, out);
                    }
                    out.push(')');
                }
            }
        }
        let document = Document::parse(text);
        let mut out = String::new();
        document.children(0).iter().for_each(|child| show(&document, *child, &mut out));
        out
    }

    #[test]
    fn trees_are_read_as_browsers_read_them() {
        for (text, tree) in [
            ("<p>a<b>c</b></p>", r#"p("a"b("c"))"#),
            ("<P>one<p>two", r#"p("one")p("two")"#),
            ("<ul><li>a<li>b<ul><li>c</ul></ul>", r#"ul(li("a")li("b"ul(li("c"))))"#),
            ("<table><tr><td>a<td>b<tr><td>c</table>", r#"table(tr(td("a")td("b"))tr(td("c")))"#),
            ("a<br>b<br/>c", r#""a"br()"b"br()"c""#),
            ("<script>if (a < b) '</p>'</SCRIPT>x", r#"script()"x""#),
            ("<title>a &amp; <b></title>", r#"title("a & <b>")"#),
            ("a < b <3 <", r#""a ""<"" b ""<""3 ""<""#),
            ("<!doctype html><!-- <p> -->x<?y?>", r#""x""#),
            ("</p>x</b>", r#""x""#),
            ("<p", "p()"),
            ("<!--", ""),
        ] {
            assert_eq!(shown(text), tree, "{text}");
        }
    }

    #[test]
    fn attributes_are_read_however_they_are_written() {
        let document =
            Document::parse(r#"<a HREF="x?a=1&amp;b" title='y "z"' data-n=5 checked href=second / =odd>t</a>"#);
        assert_eq!(document.attribute(1, "href"), Some("x?a=1&b"));
        assert_eq!(document.attribute(1, "title"), Some("y \"z\""));
        assert_eq!(document.attribute(1, "data-n"), Some("5"));
        assert_eq!(document.attribute(1, "checked"), Some(""));
        assert_eq!(document.text(1), "t");
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let deep = Document::parse(&"<div>".repeat(100_000));
        let mut depth = 0;
        let mut id = 0;
        while let Some(child) = deep.children(id).first() {
            (id, depth) = (*child, depth + 1);
        }
        assert!(depth <= MAX_DEPTH, "{depth}");
        assert!(Document::parse(&"<i>x".repeat(500_000)).nodes.len() <= MAX_NODES + 1);
        for hostile in ["<a ".repeat(100_000), "<!--".repeat(100_000), "</".repeat(100_000), "<script>".repeat(10_000)]
        {
            Document::parse(&hostile);
        }
    }
}
