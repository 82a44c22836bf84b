//! The clients whose servers can be imported: where their files are, and how they are laid out.

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
    Onetool,
}

/// How a file holds its servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// JSON, with an object of servers at this path.
    Json(&'static [&'static str]),
    /// `~/.claude.json`: `projects.<folder>.mcpServers`.
    ClaudeProject,
    /// `[mcp_servers.name]`
    Toml,
    /// `servers:` of ours.
    Yaml,
}

/// A file of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFile {
    pub client: Client,
    pub path: PathBuf,
    pub layout: Layout,
    /// Whether it belongs to one project, rather than to the user.
    pub is_project: bool,
}

/// Folders that clients keep their files in.
pub struct Folders {
    pub home: PathBuf,
    pub project: PathBuf,
}

const MCP_SERVERS: Layout = Layout::Json(&["mcpServers"]);

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

    /// Every place where this client keeps servers; the files need not exist.
    pub fn files(self, folders: &Folders) -> Vec<ClientFile> {
        let user = |path: PathBuf, layout| ClientFile { client: self, path, layout, is_project: false };
        let project = |path: &str, layout| ClientFile {
            client: self,
            path: folders.project.join(path),
            layout,
            is_project: true,
        };
        let home = |path: &str| folders.home.join(path);
        let settings = application_folder(&folders.home);
        match self {
            Self::ClaudeDesktop => vec![user(settings.join("Claude/claude_desktop_config.json"), MCP_SERVERS)],
            Self::ClaudeCode => vec![
                user(home(".claude.json"), MCP_SERVERS),
                ClientFile { is_project: true, ..user(home(".claude.json"), Layout::ClaudeProject) },
                project(".mcp.json", MCP_SERVERS),
            ],
            Self::Cursor => vec![user(home(".cursor/mcp.json"), MCP_SERVERS), project(".cursor/mcp.json", MCP_SERVERS)],
            Self::Vscode => vec![
                user(settings.join("Code/User/mcp.json"), Layout::Json(&["servers"])),
                project(".vscode/mcp.json", Layout::Json(&["servers"])),
                // Where older versions keep them.
                user(settings.join("Code/User/settings.json"), Layout::Json(&["mcp", "servers"])),
                project(".vscode/settings.json", Layout::Json(&["mcp", "servers"])),
            ],
            Self::Windsurf => vec![user(home(".codeium/windsurf/mcp_config.json"), MCP_SERVERS)],
            Self::Codex => vec![user(home(".codex/config.toml"), Layout::Toml)],
            Self::Zed => vec![
                user(home(".config/zed/settings.json"), Layout::Json(&["context_servers"])),
                project(".zed/settings.json", Layout::Json(&["context_servers"])),
            ],
            Self::Cline => vec![user(
                settings.join("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"),
                MCP_SERVERS,
            )],
            Self::Opencode => ["opencode.json", "opencode.jsonc"]
                .into_iter()
                .flat_map(|name| {
                    [
                        user(home(".config/opencode").join(name), Layout::Json(&["mcp"])),
                        project(name, Layout::Json(&["mcp"])),
                    ]
                })
                .collect(),
            Self::Onetool => Vec::new(),
        }
    }
}

/// Where applications keep their settings on this system.
fn application_folder(home: &Path) -> PathBuf {
    if cfg!(target_os = "macos") {
        home.join("Library/Application Support")
    } else if cfg!(windows) {
        std::env::var_os("APPDATA").map_or_else(|| home.join("AppData/Roaming"), PathBuf::from)
    } else {
        std::env::var_os("XDG_CONFIG_HOME")
            .filter(|folder| !folder.is_empty())
            .map_or_else(|| home.join(".config"), PathBuf::from)
    }
}

/// What a file that was named must be, by its name and its content.
pub fn recognise(path: &Path, text: &str) -> Option<ClientFile> {
    let file = |client, layout| Some(ClientFile { client, path: path.to_owned(), layout, is_project: false });
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let whole = path.to_string_lossy().to_lowercase();
    match name.rsplit('.').next() {
        Some("toml") => return file(Client::Codex, Layout::Toml),
        Some("yaml" | "yml") => return file(Client::Onetool, Layout::Yaml),
        _ => {}
    }
    let json = super::jsonc::parse(text).ok()?;
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
    if has("mcpServers") {
        file(client, MCP_SERVERS)
    } else if has("context_servers") {
        file(Client::Zed, Layout::Json(&["context_servers"]))
    } else if has("servers") {
        file(Client::Vscode, Layout::Json(&["servers"]))
    } else if json.pointer("/mcp/servers").is_some_and(serde_json::Value::is_object) {
        file(Client::Vscode, Layout::Json(&["mcp", "servers"]))
    } else if has("mcp") {
        file(Client::Opencode, Layout::Json(&["mcp"]))
    } else {
        None
    }
}
