# /// script
# requires-python = ">=3.10"
# dependencies = [
#     "tree-sitter>=0.24",
#     "tree-sitter-python>=0.23",
#     "tree-sitter-javascript>=0.23",
#     "tree-sitter-typescript>=0.23",
#     "tree-sitter-rust>=0.23",
#     "tree-sitter-go>=0.23",
#     "tree-sitter-java>=0.23",
#     "tree-sitter-c>=0.23",
#     "tree-sitter-cpp>=0.23",
#     "tree-sitter-c-sharp>=0.23",
#     "tree-sitter-ruby>=0.23",
#     "tree-sitter-php>=0.23",
# ]
#
# [tool.onetool]
# threads = 1
# ///
"""Symbols and references in source code: Python, JavaScript, TypeScript, Rust, Go, Java, C, C++, C#, Ruby and PHP.

Read from the syntax, so that comments and strings are not hits, and code that does not compile is understood too.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import subprocess
from functools import lru_cache

import tree_sitter

from onetool import get_config, progress, resolve_path

pack = "code"

__all__ = ["symbols", "find", "references", "source", "imports", "calls"]

# Each may be changed in onetool.yaml as tools.code.<name in lower case>.
MAX_FILES = 20_000
MAX_FILE_KB = 1024
MAX_RESULTS = 500

_SKIPPED = {".git", ".hg", "node_modules", "target", "dist", "build", "__pycache__", ".venv", "venv", ".onetool"}

# No pager, no questions, no programs that a repository's configuration names, and no fetching of missing objects. A folder of
# ordinary files that looks like a bare repository is none: whoever writes its files would choose the programs that run.
_GIT_SETTINGS = [
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.quotePath=false", "core.pager=cat", "safe.bareRepository=explicit",
]
_GIT_OPTIONS = ["--no-pager", *(part for setting in _GIT_SETTINGS for part in ("-c", setting))]
_GIT_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_EDITOR": "true", "LC_ALL": "C.UTF-8",
}

# Extension: (package, its function, language).
_LANGUAGES = {
    ".py": ("tree_sitter_python", "language", "python"),
    ".pyi": ("tree_sitter_python", "language", "python"),
    ".js": ("tree_sitter_javascript", "language", "javascript"),
    ".jsx": ("tree_sitter_javascript", "language", "javascript"),
    ".mjs": ("tree_sitter_javascript", "language", "javascript"),
    ".cjs": ("tree_sitter_javascript", "language", "javascript"),
    ".ts": ("tree_sitter_typescript", "language_typescript", "typescript"),
    ".mts": ("tree_sitter_typescript", "language_typescript", "typescript"),
    ".tsx": ("tree_sitter_typescript", "language_tsx", "tsx"),
    ".rs": ("tree_sitter_rust", "language", "rust"),
    ".go": ("tree_sitter_go", "language", "go"),
    ".java": ("tree_sitter_java", "language", "java"),
    ".c": ("tree_sitter_c", "language", "c"),
    ".h": ("tree_sitter_cpp", "language", "cpp"),
    ".cc": ("tree_sitter_cpp", "language", "cpp"),
    ".cpp": ("tree_sitter_cpp", "language", "cpp"),
    ".hpp": ("tree_sitter_cpp", "language", "cpp"),
    ".cs": ("tree_sitter_c_sharp", "language", "csharp"),
    ".rb": ("tree_sitter_ruby", "language", "ruby"),
    ".php": ("tree_sitter_php", "language_php", "php"),
}

# Which syntax nodes define something, and what it is.
_DEFINITIONS = {
    "function_definition": "function",
    "function_declaration": "function",
    "generator_function_declaration": "function",
    "function_item": "function",
    "function_signature_item": "function",
    "function_signature": "function",
    "local_function_statement": "function",
    "method_definition": "method",
    "method_declaration": "method",
    "method_signature": "method",
    "abstract_method_signature": "method",
    "constructor_declaration": "method",
    "method": "method",
    "singleton_method": "method",
    "class_definition": "class",
    "class_declaration": "class",
    "abstract_class_declaration": "class",
    "class_specifier": "class",
    "class": "class",
    "struct_item": "struct",
    "struct_specifier": "struct",
    "struct_declaration": "struct",
    "record_declaration": "class",
    "enum_item": "enum",
    "enum_declaration": "enum",
    "enum_specifier": "enum",
    "union_item": "struct",
    "interface_declaration": "interface",
    "trait_item": "trait",
    "trait_declaration": "trait",
    "impl_item": "impl",
    "mod_item": "module",
    "module": "module",
    "namespace_definition": "module",
    "namespace_declaration": "module",
    "internal_module": "module",
    "type_alias_declaration": "type",
    "type_item": "type",
    "type_spec": "type",
    "type_definition": "type",
    "const_item": "constant",
    "static_item": "constant",
    "macro_definition": "macro",
}
_IDENTIFIERS = {
    "identifier",
    "type_identifier",
    "field_identifier",
    "property_identifier",
    "shorthand_property_identifier",
    "shorthand_property_identifier_pattern",
    "private_property_identifier",
    "namespace_identifier",
    "package_identifier",
    "constant",
    "name",
    "instance_variable",
}
_IMPORTS = {
    "import_statement",
    "import_from_statement",
    "future_import_statement",
    "use_declaration",
    "extern_crate_declaration",
    "import_declaration",
    "preproc_include",
    "using_directive",
    "namespace_use_declaration",
}
_CALLS = {
    "call": "function",
    "call_expression": "function",
    "method_invocation": "name",
    "invocation_expression": "function",
    "function_call_expression": "function",
    "member_call_expression": "name",
    "macro_invocation": "macro",
    "new_expression": "constructor",
    "object_creation_expression": "type",
}


def symbols(path: str, kind: str = "", depth: int = 2) -> list[dict]:
    """List what a file, or every file of a folder, defines.

    Args:
        path: A source file or a folder.
        kind: Only these: function, method, class, struct, enum, interface, trait, impl, module, type, constant or macro.
        depth: How deep to look: 1 is the top level, 2 the members of classes as well.

    Returns:
        For each: name, kind, path, line, end, parent (the name of what it is in) and signature (its first line).

    Example:
        code.symbols(path="src/main.py")
    """
    found: list[dict] = []
    for file in _files(path):
        found += [entry for entry in _defined(file, depth) if not kind or entry["kind"] == kind]
        _check(found)
    return found


def find(name: str, path: str = ".", kind: str = "") -> list[dict]:
    """Find where a name is defined.

    Args:
        name: The name, or "Class.method". `*` at the end finds names that start so.
        path: The file or folder to look in.
        kind: Only these: function, method, class, struct, enum, interface, trait, impl, module, type, constant or macro.

    Returns:
        For each definition: name, kind, path, line, end, parent and signature.

    Example:
        code.find(name="Runner", path="src")
    """
    parent, _, last = name.replace("::", ".").rpartition(".")
    wanted = last.rstrip("*").encode()
    found: list[dict] = []
    for file in _files(path, containing=wanted):
        for entry in _defined(file, 20):
            same = entry["name"] == last if not last.endswith("*") else entry["name"].startswith(last[:-1])
            if same and (not kind or entry["kind"] == kind) and (not parent or entry["parent"] == parent.split(".")[-1]):
                found.append(entry)
        _check(found)
    return found


def references(name: str, path: str = ".", definitions: bool = False) -> list[dict]:
    """Find where a name is used. Names in comments and strings do not count.

    Args:
        name: The name, without what stands before a dot.
        path: The file or folder to look in.
        definitions: Whether to include where it is defined.

    Returns:
        For each use: path, line, column (from 1), inside (the function or class around it) and text (the line).

    Example:
        code.references(name="resolve_path", path="src")
    """
    wanted = name.encode()
    found: list[dict] = []
    for file in _files(path, containing=wanted):
        data, tree = _parse(file)
        lines = data.split(b"\n")
        for node, around in _walk(tree.root_node):
            if node.type in _IDENTIFIERS and data[node.start_byte : node.end_byte] == wanted:
                if not definitions and _is_definition(node):
                    continue
                row, column = node.start_point
                text = lines[row].decode("utf-8", "replace").strip()[:300]
                found.append({"path": _shown(file), "line": row + 1, "column": column + 1, "inside": ".".join(around), "text": text})
        _check(found)
    return found


def calls(path: str, name: str = "") -> list[dict]:
    """List what a file's functions call.

    Args:
        path: A source file.
        name: Only the calls in this function, method or class.

    Returns:
        For each call: inside (the function around it), calls (the name that is called) and line.

    Example:
        code.calls(path="src/main.py", name="main")
    """
    found: list[dict] = []
    for file in _files(path):
        data, tree = _parse(file)
        for node, around in _walk(tree.root_node):
            field = _CALLS.get(node.type)
            target = node.child_by_field_name(field) if field else None
            target = target or (node.child_by_field_name("method") if field else None)
            if target is None or (name and name not in around):
                continue
            text = data[target.start_byte : target.end_byte].decode("utf-8", "replace")
            found.append({"inside": ".".join(around), "calls": " ".join(text.split())[:200], "line": node.start_point[0] + 1})
        _check(found)
    return found


def source(name: str, path: str = ".") -> str:
    """Read the source of a function, class or other definition.

    Args:
        name: The name, or "Class.method".
        path: The file or folder to look in.

    Returns:
        Its text, with a first line that says where it is. Several definitions follow each other.

    Example:
        code.source(name="Runner.run", path="src")
    """
    parts = []
    for entry in find(name, path):
        text = resolve_path(entry["path"]).read_bytes().decode("utf-8", "replace").split("\n")
        body = "\n".join(text[entry["line"] - 1 : entry["end"]])
        parts.append(f"{entry['path']}:{entry['line']}-{entry['end']}\n{body}")
    if not parts:
        raise LookupError(f"'{name}' is not defined in {path}\nhint: code.find(name=\"{name[:3]}*\", path=\"{path}\") finds similar names")
    return "\n\n".join(parts)


def imports(path: str) -> list[dict]:
    """List what a file, or every file of a folder, imports.

    Args:
        path: A source file or a folder.

    Returns:
        For each import: path, line and text.

    Example:
        code.imports(path="src")
    """
    found: list[dict] = []
    for file in _files(path):
        data, tree = _parse(file)
        for node, _ in _walk(tree.root_node):
            if node.type in _IMPORTS:
                text = " ".join(data[node.start_byte : node.end_byte].decode("utf-8", "replace").split())
                found.append({"path": _shown(file), "line": node.start_point[0] + 1, "text": text[:300]})
        _check(found)
    return found


# ---- files ----------------------------------------------------------------------------------------------------------


def _setting(name: str, default: int) -> int:
    value = get_config("code", name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"tools.code.{name} must be a whole number above 0, not {value!r}")
    return value


def _check(found: list) -> None:
    most = _setting("max_results", MAX_RESULTS)
    if len(found) > most:
        raise ValueError(f"more than {most} results\nhint: narrow it with path or kind, or set tools.code.max_results")


def _files(path: str, containing: bytes = b""):
    """The source files of a folder, without what Git ignores, or the one file."""
    full = resolve_path(path)
    if full.is_file():
        if full.suffix.lower() not in _LANGUAGES:
            raise ValueError(f"{path} is not in a known language\nhint: known are {', '.join(_LANGUAGES)}")
        yield full
        return
    if not full.is_dir():
        raise FileNotFoundError(f"{path} does not exist")
    names = [file for file in _listed(full) if file.suffix.lower() in _LANGUAGES]
    most, size = _setting("max_files", MAX_FILES), _setting("max_file_kb", MAX_FILE_KB) << 10
    if len(names) > most:
        raise ValueError(f"{path} has {len(names)} source files, more than {most}\nhint: name a folder in it")
    for done, file in enumerate(sorted(names), start=1):
        if done % 200 == 0:
            progress(done, len(names), _shown(file))
        try:
            if file.is_symlink() or file.stat().st_size > size or (containing and containing not in file.read_bytes()):
                continue
        except OSError:
            continue
        yield file


def _listed(folder: pathlib.Path) -> list[pathlib.Path]:
    try:
        command = ["git", *_GIT_OPTIONS, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        environment = {**os.environ, **_GIT_ENVIRONMENT}
        listed = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=30, stdin=subprocess.DEVNULL)
        if listed.returncode == 0:
            return [folder / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    except (OSError, subprocess.TimeoutExpired):
        pass
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _SKIPPED and not name.startswith(".")]
        found += [pathlib.Path(place) / name for name in names]
    return found


def _shown(file: pathlib.Path) -> str:
    root = resolve_path(".")
    return file.relative_to(root).as_posix() if root in file.parents else str(file)


# ---- syntax ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=None)
def _parser(suffix: str) -> tree_sitter.Parser:
    package, function, _ = _LANGUAGES[suffix]
    return tree_sitter.Parser(tree_sitter.Language(getattr(importlib.import_module(package), function)()))


def _parse(file: pathlib.Path) -> tuple[bytes, tree_sitter.Tree]:
    data = file.read_bytes()
    return data, _parser(file.suffix.lower()).parse(data)


def _name(node) -> str:
    """What a definition is called; `impl T for S` and C's nested declarators have it further inside."""
    target = node.child_by_field_name("name") or node.child_by_field_name("type" if node.type == "impl_item" else "declarator")
    for _ in range(20):
        if target is None:
            return ""
        inner = target.child_by_field_name("declarator") or target.child_by_field_name("name") or target.child_by_field_name("type")
        if inner is None or target.type in ("identifier", "type_identifier"):
            break
        target = inner
    return target.text.decode("utf-8", "replace")


def _kind(node, inside: list[str]) -> str | None:
    kind = _DEFINITIONS.get(node.type) if node.is_named else None
    if kind is None and node.type in ("variable_declarator", "public_field_definition", "field_definition"):
        value = node.child_by_field_name("value")
        return "function" if value is not None and value.type in ("arrow_function", "function_expression") else None
    # Elsewhere `module` is the whole file, and a bare `struct x` in C is a use.
    if node.type == "module" and node.child_by_field_name("name") is None:
        return None
    if node.type.endswith("_specifier") and node.child_by_field_name("body") is None:
        return None
    return "method" if kind == "function" and inside and inside[-1] in ("class", "impl", "trait", "struct", "interface") else kind


def _walk(root):
    """Every node with the names of the definitions around it. Without recursion: code can be nested deeply."""
    stack = [(root, ())]
    while stack:
        node, around = stack.pop()
        yield node, around
        named = _kind(node, [])
        below = (*around, _name(node)) if named else around
        stack.extend((child, below) for child in reversed(node.children))


def _defined(file: pathlib.Path, depth: int) -> list[dict]:
    data, tree = _parse(file)
    lines = data.split(b"\n")
    found: list[dict] = []
    stack = [(tree.root_node, (), ())]
    while stack:
        node, names, kinds = stack.pop()
        kind = _kind(node, list(kinds))
        if kind:
            name = _name(node)
            if name and len(names) < depth:
                first, last = node.start_point[0], node.end_point[0]
                signature = lines[first].decode("utf-8", "replace").strip().rstrip("{:").rstrip()[:200]
                found.append(
                    {"name": name, "kind": kind, "path": _shown(file), "line": first + 1, "end": last + 1,
                     "parent": names[-1] if names else None, "signature": signature}
                )
            names, kinds = (*names, name), (*kinds, kind)
        stack.extend((child, names, kinds) for child in reversed(node.children))
    return found


def _is_definition(node) -> bool:
    parent = node.parent
    for _ in range(6):
        if parent is None:
            return False
        if _kind(parent, []):
            named = parent.child_by_field_name("name") or parent.child_by_field_name("declarator")
            return named is not None and parent.type != "impl_item" and _name_node(named) == node
        if parent.type not in ("function_declarator", "pointer_declarator", "qualified_identifier", "reference_declarator"):
            return False
        parent = parent.parent
    return False


def _name_node(target):
    for _ in range(20):
        inner = target.child_by_field_name("declarator") or target.child_by_field_name("name")
        if inner is None:
            return target
        target = inner
    return target
