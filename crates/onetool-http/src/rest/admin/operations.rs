//! What the page may ask of the program as a whole.

use async_trait::async_trait;
use onetool_sdk::{QualifiedName, ToolError};

use super::model::{ChangedTool, ConfigReply, SecretRow, ServerRow, TrustReply};

/// Everything that is not a call and not a bundle.
#[async_trait]
pub trait Operations: Send + Sync {
    /// The project's folder, for people.
    fn project(&self) -> String;

    /// MCP servers and Python workers.
    fn servers(&self) -> Vec<ServerRow>;

    /// Begins to sign in to a server; answers with the address to open.
    async fn sign_in(&self, name: &str) -> Result<String, ToolError>;

    /// Ends it with what the browser was sent back with: the address, its query, or the code alone.
    async fn finish_sign_in(&self, name: &str, pasted: &str) -> Result<(), ToolError>;

    /// Says that browsers can come back from sign-ins to this server, where it is known by a public address.
    fn take_callbacks(&self);

    /// Ends the sign-in that the query of such a browser belongs to; answers with the name of the server.
    async fn finish_callback(&self, query: &str) -> Result<String, ToolError>;

    /// Signs out of a server. Answers whether anybody was signed in.
    async fn sign_out(&self, name: &str) -> Result<bool, ToolError>;

    /// Connects a server anew, or lets a worker start anew with its next call.
    async fn restart(&self, name: &str) -> Result<(), ToolError>;

    /// What a server or worker said last. Blocks.
    fn log_of(&self, name: &str) -> Result<Vec<String>, ToolError>;

    /// Tools of servers that differ from what was accepted. Blocks.
    fn changed_tools(&self) -> Vec<ChangedTool>;

    async fn accept_changes(&self, server: &str) -> Result<(), ToolError>;

    /// The configuration files that an approval of this tool for good is written to. Blocks.
    fn policy_files(&self, tool: &QualifiedName) -> Vec<String>;

    fn configuration(&self) -> ConfigReply;

    /// Writes what was counted and is not written yet. Blocks.
    fn flush_statistics(&self);

    /// Whether what came with the folder may run, and what waits for that. Blocks.
    fn trust(&self) -> TrustReply;

    /// Trusts the folder, or no longer. Blocks.
    fn set_trust(&self, is_trusted: bool) -> Result<(), ToolError>;

    /// Reads the configuration again. Blocks.
    fn reload(&self) -> Result<(), ToolError>;

    fn secrets(&self) -> Vec<SecretRow>;

    /// Writes a secret, or removes it. Blocks.
    fn set_secret(&self, name: &str, value: Option<&str>) -> Result<(), ToolError>;
}
