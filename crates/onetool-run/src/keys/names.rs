//! `alias`, `snippets`, `projects`, `tools` and `tools.msg`: names that the user chooses.

use indexmap::IndexMap;
use onetool_config::{ConfigValue, Reader, Section, Shape, expand_home, keys, short};
use onetool_sdk::{RESERVED_PACKS, is_python_identifier};
use serde_json::Value as Json;

use crate::{Project, Snippet, SnippetParameter, Topic, check_template};

pub const ALIAS: Section<IndexMap<String, String>> =
    Section::new("alias").with_doc("Short names for tools: `ls: file.list`.").with_example("\nls: file.list\n");

pub fn aliases(reader: &mut Reader) -> IndexMap<String, String> {
    let mut aliases = IndexMap::new();
    for (name, target) in reader.read(&ALIAS) {
        let is_name = target.split('.').count() <= 2 && target.split('.').all(is_python_identifier);
        if RESERVED_PACKS.contains(&name.as_str()) {
            reader.problem(&["alias", &name], "this is the name of a pack that cannot be replaced");
        } else if !is_python_identifier(&name) {
            reader.problem(&["alias", &name], "an alias must be a name in Python: letters, digits and underscores");
        } else if !is_name {
            let message = format!("found '{}', expected a tool's name like pack.function", short(&target));
            reader.problem(&["alias", &name], &message);
        } else {
            aliases.insert(name, target);
        }
    }
    for name in aliases.keys().filter(|name| is_cyclic(&aliases, name)) {
        reader.problem(&["alias", name], "this alias leads back to itself");
    }
    aliases
}

fn is_cyclic(aliases: &IndexMap<String, String>, name: &str) -> bool {
    let mut target = name;
    for _ in 0..=aliases.len() {
        match aliases.get(target) {
            Some(next) => target = next,
            None => return false,
        }
    }
    true
}

keys! {
    /// One snippet.
    pub struct SnippetKeys {
        /// What it does.
        description: String = String::new(), live, example "Search the project";
        /// Parameters, by name.
        params: IndexMap<String, SnippetParameterKeys> = IndexMap::new(), live, example "{q: {required: true}}";
        /// Python code, as a Jinja template.
        body: String = String::new(), live, example "file.grep({{ q | literal }})";
    }
}

keys! {
    /// One parameter of a snippet.
    pub struct SnippetParameterKeys {
        /// Whether it must be given. Without it, a parameter without a default must.
        required: Option<bool> = None, live, example "true";
        /// Value where none is given.
        default: Option<Json> = None, live, example "20";
        /// What it is for.
        description: Option<String> = None, live, example "What to look for";
        /// Type, as it is shown.
        kind as "type": Option<String> = None, live, example "str";
    }
}

/// A snippet, or only its body.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SnippetEntry(SnippetKeys);

impl ConfigValue for SnippetEntry {
    const SHAPE: Shape = Shape::Either(&[Shape::Text, SnippetKeys::SHAPE]);

    fn read(value: Json) -> Option<Self> {
        match value {
            Json::String(body) => Some(Self(SnippetKeys { body, ..SnippetKeys::default() })),
            other => SnippetKeys::read(other).map(Self),
        }
    }

    fn write(&self) -> Json {
        self.0.write()
    }
}

pub const SNIPPETS: Section<IndexMap<String, SnippetEntry>> =
    Section::new("snippets").with_doc("Templates that `$name key=value` expands.").with_example(
        r"
grep:
  description: Search the project
  params:
    q: {description: What to look for, type: str, required: true}
    n: {default: 20, description: Matches at most}
  body: file.grep({{ q | literal }}, max_matches={{ n }})
",
    );

pub fn snippets(reader: &mut Reader) -> IndexMap<String, Snippet> {
    let mut snippets = IndexMap::new();
    for (name, SnippetEntry(entry)) in reader.read(&SNIPPETS) {
        if !is_snippet_name(&name) {
            let message = "a snippet's name has letters, digits, _ and -, and does not begin with a digit";
            reader.problem(&["snippets", &name], message);
            continue;
        }
        if entry.body.trim().is_empty() {
            if !reader.is_wrong(&["snippets", &name, "body"]) {
                reader.problem(&["snippets", &name], "expected a body, the code to run");
            }
            continue;
        }
        // Kept, so that using it gives the same error.
        if let Err(message) = check_template(&entry.body) {
            reader.problem(&["snippets", &name, "body"], &format!("not a valid template: {message}"));
        }
        let parameter = |(key, parameter): (String, SnippetParameterKeys)| {
            let required = parameter.required.unwrap_or(parameter.default.is_none());
            let SnippetParameterKeys { default, description, kind, .. } = parameter;
            (key, SnippetParameter { required, kind, default, description })
        };
        let parameters = entry.params.into_iter().map(parameter).collect();
        snippets
            .insert(name, Snippet { description: entry.description, parameters, body: entry.body, is_saved: false });
    }
    snippets
}

fn is_snippet_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

keys! {
    /// One project.
    pub struct ProjectKeys {
        /// Folder, relative to this project.
        path: Option<String> = None, live, example "docs";
        /// Further values, read as `proj.name.key`.
        attrs: IndexMap<String, Json> = IndexMap::new(), live, example "{language: en}";
    }
}

/// A project, or only its path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProjectEntry(ProjectKeys);

impl ConfigValue for ProjectEntry {
    const SHAPE: Shape = Shape::Either(&[Shape::Text, ProjectKeys::SHAPE]);

    fn read(value: Json) -> Option<Self> {
        match value {
            Json::String(path) => Some(Self(ProjectKeys { path: Some(path), ..ProjectKeys::default() })),
            other => ProjectKeys::read(other).map(Self),
        }
    }

    fn write(&self) -> Json {
        self.0.write()
    }
}

pub const PROJECTS: Section<IndexMap<String, ProjectEntry>> = Section::new("projects")
    .with_doc("Folders that code reaches as `proj.name`.")
    .with_example("\nhere: .\ndocs: {path: docs, attrs: {language: en}}\n");

pub fn projects(reader: &mut Reader) -> IndexMap<String, Project> {
    let mut projects = IndexMap::new();
    for (name, ProjectEntry(entry)) in reader.read(&PROJECTS) {
        let Some(path) = entry.path else {
            if !reader.is_wrong(&["projects", &name, "path"]) {
                reader.problem(&["projects", &name], "expected a path, or a mapping with path and attrs");
            }
            continue;
        };
        if name.trim().is_empty() {
            reader.problem(&["projects", &name], "a project needs a name, to be used as proj.name");
            continue;
        }
        let path = reader.places().project.join(expand_home(&path));
        projects.insert(name, Project { path, attributes: entry.attrs });
    }
    projects
}

pub const TOOLS: Section<IndexMap<String, Json>> = Section::new("tools")
    .with_doc("Settings of packs, by name. A tool file reads its own with `get_config(\"pack\", \"key\")`.")
    .with_example("\n");

keys! {
    /// The pack `msg`: where `ot.notify` writes.
    pub struct TopicsKeys {
        /// Files by pattern of topics; the first that matches counts.
        topics: Vec<TopicKeys> = Vec::new(), live, example "[{pattern: \"notes*\", file: notes.yaml}]";
    }
}

keys! {
    /// One topic.
    pub struct TopicKeys {
        /// Pattern of topics.
        pattern: String = String::new(), live, example "notes*";
        /// File, relative to .onetool.
        file: String = String::new(), live, example "notes.yaml";
    }
}

pub const TOPICS: Section<TopicsKeys> = Section::new("tools.msg");

pub fn topics(reader: &mut Reader) -> Vec<Topic> {
    let mut topics = Vec::new();
    for entry in reader.read(&TOPICS).topics {
        if entry.pattern.is_empty() || entry.file.is_empty() {
            reader.problem(&["tools", "msg", "topics"], "each topic needs a pattern and a file");
        } else {
            topics.push(Topic { pattern: entry.pattern, file: reader.places().own().join(expand_home(&entry.file)) });
        }
    }
    topics
}
