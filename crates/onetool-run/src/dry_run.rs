//! Checks a call without making it: the same checks as on the call path, up to the point where the call would begin.

use onetool_sdk::{Arguments, QualifiedName, ToolError};

use crate::{Permission, Shared, parameters, validate};

/// A call that was checked and not made.
#[derive(Debug)]
pub struct DryRun {
    /// By full parameter name.
    pub arguments: Arguments,
    pub permission: Permission,
}

impl Shared {
    /// Checks a call as the call path would before making it. Nobody is asked, nothing is recorded.
    pub fn dry_run(&self, name: &QualifiedName, arguments: Arguments) -> Result<DryRun, ToolError> {
        let shown_name = name.to_string();
        let unknown = || ToolError::not_found(format!("no tool '{shown_name}'"));
        let entry = self.catalog().pack(&name.pack).filter(|_| self.sees(name)).ok_or_else(unknown)?;
        let tool = entry.pack.tools.get(&name.function).ok_or_else(|| Self::unknown_function(entry, &name.function))?;
        let arguments = parameters::bind(&shown_name, tool, arguments)?;
        validate::check(&shown_name, tool, &arguments)?;
        Ok(DryRun { arguments, permission: self.permission(name) })
    }
}
