//! The clients whose servers can be imported, with the locations and formats of their files.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

/// A program that has MCP servers configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Client {
    ClaudeDesktop,
    ClaudeCode,
    Cursor,
    Vscode,
    Windsurf,
    Codex,
    Zed,
    Cline,
    Opencode,
    /// Another configuration of OneTool, which is named.
    #[value(skip)]
    Onetool,
}

/// How servers are stored in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// JSON, with an object of servers at this path.
    Json(&'static [&'static str]),
    /// `~/.claude.json`: `projects.<folder>.mcpServers`.
    ClaudeProject,
    /// `[mcp_servers.name]`
    Toml,
    /// `servers:` of a OneTool configuration.
    Yaml,
}

/// A client's configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFile {
    pub client: Client,
    pub path: PathBuf,
    pub layout: Layout,
    /// Whether it belongs to one project rather than to the user.
    pub is_project: bool,
}

/// Folders in which clients keep their files.
pub struct Folders {
    home: PathBuf,
    project: PathBuf,
    /// Where applications keep their settings.
    applications: PathBuf,
    /// The same for programs that follow the Linux conventions on every system.
    configurations: PathBuf,
    zed: PathBuf,
    claude: PathBuf,
    codex: PathBuf,
}

/// Operating systems with different file locations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    Linux,
    MacOs,
    Windows,
}

impl System {
    pub fn current() -> Self {
        if cfg!(target_os = "macos") {
            Self::MacOs
        } else if cfg!(windows) {
            Self::Windows
        } else {
            Self::Linux
        }
    }
}

impl Folders {
    pub fn new(system: System, home: &Path, project: &Path, variable: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        let configurations = variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
        let applications = match system {
            System::Linux => configurations.clone(),
            System::MacOs => home.join("Library/Application Support"),
            System::Windows => variable("APPDATA").unwrap_or_else(|| home.join("AppData/Roaming")),
        };
        let zed = match system {
            System::Linux => configurations.join("zed"),
            System::MacOs => home.join(".config/zed"),
            System::Windows => applications.join("Zed"),
        };
        Self {
            home: home.to_owned(),
            project: project.to_owned(),
            applications,
            configurations,
            zed,
            claude: variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.to_owned()),
            codex: variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex")),
        }
    }
}

/// Settings folders of VS Code and its variants.
const VSCODE: &[&str] = &["Code", "Code - Insiders", "VSCodium"];
/// Editors in which Cline is installed.
const CLINE: &[&str] = &["Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf"];

const MCP_SERVERS: Layout = Layout::Json(&["mcpServers"]);
const VSCODE_SERVERS: Layout = Layout::Json(&["servers"]);
const VSCODE_SETTINGS: Layout = Layout::Json(&["mcp", "servers"]);

impl Client {
    pub const ALL: &'static [Self] = &[
        Self::ClaudeDesktop,
        Self::ClaudeCode,
        Self::Cursor,
        Self::Vscode,
        Self::Windsurf,
        Self::Codex,
        Self::Zed,
        Self::Cline,
        Self::Opencode,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Vscode => "vscode",
            Self::Windsurf => "windsurf",
            Self::Codex => "codex",
            Self::Zed => "zed",
            Self::Cline => "cline",
            Self::Opencode => "opencode",
            Self::Onetool => "onetool",
        }
    }

    /// All locations of this client's servers; the files need not exist.
    pub fn files(self, folders: &Folders) -> Vec<ClientFile> {
        let user = |path: PathBuf, layout| ClientFile { client: self, path, layout, is_project: false };
        let project = |path: &str, layout| ClientFile {
            client: self,
            path: folders.project.join(path),
            layout,
            is_project: true,
        };
        let home = |path: &str| folders.home.join(path);
        let editor = |name: &str| folders.applications.join(name).join("User");
        match self {
            Self::ClaudeDesktop => {
                vec![user(folders.applications.join("Claude/claude_desktop_config.json"), MCP_SERVERS)]
            }
            Self::ClaudeCode => {
                let own = folders.claude.join(".claude.json");
                vec![
                    user(own.clone(), MCP_SERVERS),
                    ClientFile { is_project: true, ..user(own, Layout::ClaudeProject) },
                    project(".mcp.json", MCP_SERVERS),
                ]
            }
            Self::Cursor => vec![user(home(".cursor/mcp.json"), MCP_SERVERS), project(".cursor/mcp.json", MCP_SERVERS)],
            Self::Vscode => {
                let mut files = vec![project(".vscode/mcp.json", VSCODE_SERVERS)];
                for settings in VSCODE.iter().map(|name| editor(name)) {
                    files.push(user(settings.join("mcp.json"), VSCODE_SERVERS));
                    files.extend(profiles(&settings).map(|profile| user(profile.join("mcp.json"), VSCODE_SERVERS)));
                    // The location in older versions.
                    files.push(user(settings.join("settings.json"), VSCODE_SETTINGS));
                }
                files.push(project(".vscode/settings.json", VSCODE_SETTINGS));
                // The user's file comes first, and is created for a client without files.
                files.swap(0, 1);
                files
            }
            Self::Windsurf => ["windsurf", "windsurf-next"]
                .map(|name| user(home(".codeium").join(name).join("mcp_config.json"), MCP_SERVERS))
                .into(),
            Self::Codex => {
                vec![user(folders.codex.join("config.toml"), Layout::Toml), project(".codex/config.toml", Layout::Toml)]
            }
            Self::Zed => {
                let layout = Layout::Json(&["context_servers"]);
                vec![user(folders.zed.join("settings.json"), layout), project(".zed/settings.json", layout)]
            }
            Self::Cline => {
                let file = "settings/cline_mcp_settings.json";
                let inside = |name: &&str| editor(name).join("globalStorage/saoudrizwan.claude-dev").join(file);
                let editors = CLINE.iter().map(inside);
                editors.chain([home(".cline/data").join(file)]).map(|path| user(path, MCP_SERVERS)).collect()
            }
            Self::Opencode => ["opencode.json", "opencode.jsonc"]
                .into_iter()
                .flat_map(|name| {
                    [
                        user(folders.configurations.join("opencode").join(name), Layout::Json(&["mcp"])),
                        project(name, Layout::Json(&["mcp"])),
                    ]
                })
                .collect(),
            Self::Onetool => Vec::new(),
        }
    }
}

/// Profile folders of an editor.
fn profiles(settings: &Path) -> impl Iterator<Item = PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(settings.join("profiles"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    folders.into_iter()
}

/// Determines the format of a named file, by its name and content.
pub fn recognise(path: &Path, text: &str) -> Result<Vec<ClientFile>, serde_json::Error> {
    let file = |client, layout| ClientFile { client, path: path.to_owned(), layout, is_project: false };
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let whole = path.to_string_lossy().to_lowercase();
    match name.rsplit('.').next() {
        Some("toml") => return Ok(vec![file(Client::Codex, Layout::Toml)]),
        Some("yaml" | "yml") => return Ok(vec![file(Client::Onetool, Layout::Yaml)]),
        _ => {}
    }
    let json = super::jsonc::parse(text)?;
    let has = |key: &str| json.get(key).is_some_and(serde_json::Value::is_object);
    let by_name = [
        ("claude_desktop", Client::ClaudeDesktop),
        (".mcp.json", Client::ClaudeCode),
        (".claude.json", Client::ClaudeCode),
        ("windsurf", Client::Windsurf),
        ("cline", Client::Cline),
        ("cursor", Client::Cursor),
    ];
    let client =
        by_name.into_iter().find(|(part, _)| whole.contains(part)).map_or(Client::Cursor, |(_, client)| client);
    let layout = if has("mcpServers") {
        Some((client, MCP_SERVERS))
    } else if has("context_servers") {
        Some((Client::Zed, Layout::Json(&["context_servers"])))
    } else if has("servers") {
        Some((Client::Vscode, VSCODE_SERVERS))
    } else if json.pointer("/mcp/servers").is_some_and(serde_json::Value::is_object) {
        Some((Client::Vscode, VSCODE_SETTINGS))
    } else if has("mcp") {
        Some((Client::Opencode, Layout::Json(&["mcp"])))
    } else {
        None
    };
    // Claude Code keeps servers of projects in the user's file.
    let of_project = has("projects").then(|| file(Client::ClaudeCode, Layout::ClaudeProject));
    Ok(layout.map(|(client, layout)| file(client, layout)).into_iter().chain(of_project).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_file(client: Client, system: System, variables: &[(&str, &str)]) -> String {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value));
        let folders = Folders::new(system, Path::new("/me"), Path::new("/p"), &variable);
        client.files(&folders)[0].path.display().to_string()
    }

    #[test]
    fn every_system_has_its_own_places() {
        use System::{Linux, MacOs, Windows};
        let roaming = &[("APPDATA", "/roaming")];
        for (client, system, variables, expected) in [
            (Client::ClaudeDesktop, Linux, &[][..], "/me/.config/Claude/claude_desktop_config.json"),
            (Client::ClaudeDesktop, MacOs, &[], "/me/Library/Application Support/Claude/claude_desktop_config.json"),
            (Client::ClaudeDesktop, Windows, roaming, "/roaming/Claude/claude_desktop_config.json"),
            (Client::ClaudeDesktop, Windows, &[], "/me/AppData/Roaming/Claude/claude_desktop_config.json"),
            (Client::ClaudeCode, MacOs, &[], "/me/.claude.json"),
            (Client::ClaudeCode, Linux, &[("CLAUDE_CONFIG_DIR", "/c")], "/c/.claude.json"),
            (Client::Cursor, Windows, roaming, "/me/.cursor/mcp.json"),
            (Client::Vscode, Linux, &[("XDG_CONFIG_HOME", "/x")], "/x/Code/User/mcp.json"),
            (Client::Vscode, MacOs, &[], "/me/Library/Application Support/Code/User/mcp.json"),
            (Client::Vscode, Windows, roaming, "/roaming/Code/User/mcp.json"),
            (Client::Windsurf, MacOs, &[], "/me/.codeium/windsurf/mcp_config.json"),
            (Client::Codex, Windows, roaming, "/me/.codex/config.toml"),
            (Client::Codex, Linux, &[("CODEX_HOME", "/c")], "/c/config.toml"),
            (Client::Zed, MacOs, &[], "/me/.config/zed/settings.json"),
            (Client::Zed, Windows, roaming, "/roaming/Zed/settings.json"),
            (Client::Opencode, MacOs, &[], "/me/.config/opencode/opencode.json"),
            (
                Client::Cline,
                Windows,
                roaming,
                "/roaming/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            ),
        ] {
            assert_eq!(first_file(client, system, variables), expected, "{client:?} {system:?}");
        }
    }
}
