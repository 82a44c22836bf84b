//! The pack `proj`: `proj.<name>` is a project's folder (see `pack_proxy`), and these are its functions.

use std::sync::Arc;

use indexmap::IndexMap;
use onetool_sdk::NativePack;
use onetool_sdk::{ToolError, Value, define_tool};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::nearest::{listed, nearest};
use crate::pack_proxy::PROJECTS;
use crate::toolbox::Project;

#[derive(Deserialize, JsonSchema)]
struct PathInput {
    /// The project's name.
    name: String,
    /// A path below the project's folder.
    #[serde(default)]
    path: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct ListInput {}

/// Creates the pack for these projects.
pub fn project_pack(projects: &IndexMap<String, Project>) -> NativePack {
    let projects = Arc::new(projects.clone());
    let known = projects.clone();
    NativePack {
        name: PROJECTS,
        description: "Folders of projects: proj.<name> is a path, e.g. proj.app / 'src'",
        tools: vec![
            define_tool("path", "The folder of a project, or a path below it.", move |input: PathInput, _| {
                let found = path_of(&known, &input);
                async move { found.map(Value::Path) }
            })
            .with_returns("Path", "the path")
            .with_example("proj.path('app', 'src')")
            .read_only(),
            define_tool("list", "All projects, with their folders and attributes.", move |_: ListInput, _| {
                let list = projects
                    .iter()
                    .map(|(name, project)| {
                        let mut entry = vec![
                            (Value::from("name"), Value::from(name.as_str())),
                            (Value::from("path"), Value::Str(project.path.to_string_lossy().into_owned())),
                        ];
                        if !project.attributes.is_empty() {
                            let attributes = project
                                .attributes
                                .iter()
                                .map(|(key, value)| (Value::from(key.as_str()), Value::from_json(value.clone())));
                            entry.push((Value::from("attrs"), Value::Dict(attributes.collect())));
                        }
                        Value::Dict(entry)
                    })
                    .collect();
                async move { Ok::<_, ToolError>(Value::List(list)) }
            })
            .with_returns("list[dict]", "name, path and attrs of each project")
            .with_example("proj.list()")
            .read_only(),
        ],
    }
}

fn path_of(projects: &IndexMap<String, Project>, input: &PathInput) -> Result<String, ToolError> {
    let project = projects.get(&input.name).ok_or_else(|| {
        let names = || projects.keys().map(String::as_str);
        let meant = nearest(&input.name, names()).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
        ToolError::value_error(format!("no project '{}'{meant}", input.name))
            .with_hint(format!("available projects: {}", listed(names())))
    })?;
    let path = match &input.path {
        Some(below) => project.path.join(below.trim_start_matches('/')),
        None => project.path.clone(),
    };
    Ok(path.to_string_lossy().into_owned())
}
