//! The pack `std`: what every agent needs beside its tools: to end, to plan, and to look into large results.
//!
//! The plan lives as long as the server. Stored results are read through [`ResultReader`], a line at a time, so their
//! size does not matter.

mod done;
mod results;
mod todo;

use std::sync::Arc;

pub use results::ResultReader;

use super::NativePack;

/// The pack `std`.
pub fn pack(results: Arc<dyn ResultReader>) -> NativePack {
    let list = Arc::new(todo::List::default());
    NativePack {
        name: "std",
        description: "End, plan, and look into stored results.",
        tools: vec![
            done::tool(),
            todo::read_tool(list.clone()),
            todo::write_tool(list),
            results::cache_tool(results.clone()),
            results::grep_tool(results),
        ],
    }
}
