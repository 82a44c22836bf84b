//! Operations that the admin page requests from the program as a whole.

use async_trait::async_trait;
use onetool_sdk::{QualifiedName, ToolError};

use super::model::{ChangedTool, ConfigReply, SecretRow, ServerRow, TrustReply};

/// Everything that is not a call and not a bundle.
#[async_trait]
pub trait Operations: Send + Sync {
    /// Returns the project's folder, for display.
    fn project(&self) -> String;

    /// Returns MCP servers and Python workers.
    fn servers(&self) -> Vec<ServerRow>;

    /// Begins to sign in to a server; returns the address to open.
    async fn sign_in(&self, name: &str) -> Result<String, ToolError>;

    /// Completes it with the callback of the browser: the address, its query, or the code alone.
    async fn finish_sign_in(&self, name: &str, pasted: &str) -> Result<(), ToolError>;

    /// Announces that browsers can return from sign-ins to this server, at its public address.
    fn take_callbacks(&self);

    /// Completes the sign-in that a callback's query belongs to; returns the name of the server.
    async fn finish_callback(&self, query: &str) -> Result<String, ToolError>;

    /// Signs out of a server. Returns whether anybody was signed in.
    async fn sign_out(&self, name: &str) -> Result<bool, ToolError>;

    /// Reconnects a server, or restarts a worker with its next call.
    async fn restart(&self, name: &str) -> Result<(), ToolError>;

    /// Returns the last log lines of a server or worker. Blocks.
    fn log_of(&self, name: &str) -> Result<Vec<String>, ToolError>;

    /// Returns tools of servers that differ from their accepted versions. Blocks.
    fn changed_tools(&self) -> Vec<ChangedTool>;

    async fn accept_changes(&self, server: &str) -> Result<(), ToolError>;

    /// Returns the configuration files that a permanent approval of this tool is written to. Blocks.
    fn policy_files(&self, tool: &QualifiedName) -> Vec<String>;

    fn configuration(&self) -> ConfigReply;

    /// Writes pending statistics. Blocks.
    fn flush_statistics(&self);

    /// Returns whether the contents of the folder may run, and what is held back. Blocks.
    fn trust(&self) -> TrustReply;

    /// Trusts the folder, or revokes the trust. Blocks.
    fn set_trust(&self, is_trusted: bool) -> Result<(), ToolError>;

    /// Reads the configuration again. Blocks.
    fn reload(&self) -> Result<(), ToolError>;

    fn secrets(&self) -> Vec<SecretRow>;

    /// Writes a secret, or removes it. Blocks.
    fn set_secret(&self, name: &str, value: Option<&str>) -> Result<(), ToolError>;
}
