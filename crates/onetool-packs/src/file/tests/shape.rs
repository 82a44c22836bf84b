//! The pack as a caller sees it before a call.

use super::super::{FileSettings, pack};

#[test]
fn every_tool_is_described() {
    let pack = pack(FileSettings::for_project("."));
    let mut signatures = Vec::new();
    for tool in &pack.tools {
        let spec = tool.spec();
        assert!(spec.example.as_ref().is_some_and(|example| example.starts_with(&format!("file.{}(", spec.name))));
        assert!(spec.returns.is_some() && spec.summary().ends_with(['.', ':']), "{}", spec.name);
        assert_eq!(spec.signature.described_parameters().len(), spec.signature.parameters.len(), "{}", spec.name);
        signatures.push(spec.signature.render(&format!("file.{}", spec.name)));
    }
    assert_eq!(
        signatures.join("\n"),
        "\
file.read(path: str, offset: int = 1, limit: int | None = None, line_numbers: bool = False, byte_offset: int | None = None, byte_limit: int | None = None) -> str | bytes
file.write(path: str, content: str, expected_hash: str | None = None, line_endings: Literal['keep', 'lf', 'crlf', 'as_given'] = 'keep', mode: Literal['replace', 'append', 'create'] | None = None, encoding: Literal['text', 'base64'] = 'text') -> dict
file.edit(path: str, old_string: str, new_string: str, replace_all: bool = False, expected_replacements: int | None = None, expected_hash: str | None = None, match: Literal['loose', 'exact'] = 'loose', dry_run: bool = False) -> dict
file.patch(patch: str, dry_run: bool = False) -> dict
file.list(path: str = '.', depth: int = 1, hidden: bool = True, limit: int | None = None, details: bool = False, times: bool = False) -> list | dict
file.glob(pattern: str, path: str = '.', hidden: bool = False, ignored: bool = False, limit: int | None = None, details: bool = False) -> list | dict
file.grep(pattern: str, path: str = '.', glob: str | None = None, regex: bool = True, ignore_case: bool = False, before: int = 0, after: int = 0, output: Literal['text', 'matches', 'files', 'count'] = 'text', max_matches: int | None = None, hidden: bool = False, ignored: bool = False) -> str | dict
file.info(path: str, content: bool = True, follow: bool = False) -> dict
file.make_folder(path: str) -> dict
file.move(path: str, target: str) -> dict
file.delete(path: str, recursive: bool = False) -> dict"
    );
}
