//! The pack `std`: what every agent needs besides its tools: finishing, planning, and reading large results.
//!
//! The plan lives as long as the server, or in the state that several servers share. Stored results are read through
//! [`ResultReader`], a line at a time, so their size does not matter.

mod done;
mod results;
mod todo;

use std::sync::Arc;

use onetool_state::interface::Documents;
pub use results::ResultReader;

use super::NativePack;

/// The pack `std`.
pub fn pack(results: Arc<dyn ResultReader>, plans: Arc<dyn Documents>) -> NativePack {
    let list = Arc::new(todo::List::new(plans));
    NativePack {
        name: "std",
        description: "End, plan, and look into stored results.",
        tools: vec![
            done::tool().read_only(),
            todo::read_tool(list.clone()).read_only(),
            todo::write_tool(list),
            results::cache_tool(results.clone()).read_only(),
            results::grep_tool(results).read_only(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use onetool_state::flat::{FlatFiles, FlatPlaces};
    use onetool_state::interface::Backend as _;

    use super::*;

    struct Nothing;

    impl ResultReader for Nothing {
        fn open(
            &self,
            handle: &str,
            _: &onetool_sdk::CallContext,
        ) -> Result<Box<dyn std::io::BufRead + Send>, onetool_sdk::ToolError> {
            Err(onetool_sdk::ToolError::value_error(format!("Result not found: {handle}")))
        }
    }

    #[test]
    fn every_tool_is_described() {
        let mut signatures = Vec::new();
        let plans = FlatFiles::new(FlatPlaces::new("unused")).documents();
        for tool in pack(Arc::new(Nothing), plans).tools {
            let spec = tool.spec();
            assert!(spec.example.as_ref().is_some_and(|example| example.starts_with(&format!("std.{}(", spec.name))));
            assert!(spec.returns.is_some() && spec.summary().ends_with('.'), "{}", spec.name);
            assert_eq!(spec.signature.described_parameters().len(), spec.signature.parameters.len(), "{}", spec.name);
            signatures.push(spec.signature.render(&format!("std.{}", spec.name)));
        }
        assert_eq!(
            signatures.join("\n"),
            "\
std.done(message: str | None = None) -> dict
std.todo_read() -> dict
std.todo_write(todos: list[{id?: str, content: str, status?: Literal['pending', 'in_progress', 'completed', 'cancelled']}]) -> dict
std.tool_output_cache(ref_id: str, offset: int = 1, limit: int = 2000) -> str
std.tool_output_cache_grep(ref_id: str, pattern: str, regex: bool = False, before: int = 0, after: int = 0, max_matches: int = 100) -> str"
        );
    }
}
