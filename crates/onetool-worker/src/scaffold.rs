//! The text of a new tool file.

use onetool_sdk::to_python_identifier;

const TEMPLATE: &str = include_str!("scaffold.py");

/// Returns a commented example of a tool file for a pack of this name.
pub fn scaffold(pack: &str) -> String {
    TEMPLATE.replace("PACK_NAME", &to_python_identifier(pack))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::tool_file;

    #[test]
    fn the_example_is_a_tool_file_without_warnings() {
        let text = scaffold("my-pack");
        let file = tool_file::read(Path::new("x.py"), "x", text.as_bytes()).unwrap();
        assert_eq!(file.pack.name, "my_pack");
        assert_eq!(file.warnings, []);
        assert_eq!(file.pack.tools.keys().collect::<Vec<_>>(), ["greet", "count_words"]);
        assert!(file.pack.tools.values().all(|tool| tool.checkable && tool.example.is_some()));
        assert!(file.metadata.is_some());
    }
}
