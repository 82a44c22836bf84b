"""What every pack of the gallery has: a header, documentation, tests, and examples that name what there is."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent
PACKS = sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and not path.name.startswith(("_", ".")))


def functions(name: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse((FOLDER / name / f"{name}_tools.py").read_text())
    exported = next(s for s in tree.body if isinstance(s, ast.Assign) and s.targets[0].id == "__all__")
    defined = {s.name: s for s in tree.body if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef))}
    return {exported: defined[exported] for exported in ast.literal_eval(exported.value)}


def calls(name: str, text: str):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == name:
            yield node


@pytest.mark.parametrize("name", PACKS)
def test_a_pack_is_complete(name):
    source = (FOLDER / name / f"{name}_tools.py").read_text()
    assert source.startswith("# /// script\n# requires-python"), "the header comes first"
    assert (FOLDER / name / f"test_{name}.py").is_file()
    assert f'pack = "{name}"' in source
    # Every limit that the file names can be set, and the README says so.
    readme = (FOLDER / name / "README.md").read_text()
    for key in re.findall(rf'(?:_setting|_limit|get_config)\((?:"{name}", )?"([a-z_]+)"', source):
        assert key == name or f"`{key}`" in readme, key


@pytest.mark.parametrize("name", PACKS)
def test_every_function_is_documented(name):
    for function in functions(name).values():
        text = ast.get_docstring(function)
        for argument in function.args.args:
            assert re.search(rf"^    {argument.arg}: \S", text, re.M), f"{function.name}: {argument.arg} is not described"
            assert argument.annotation is not None, f"{function.name}: {argument.arg} has no type"
        example = text.split("Example:\n")[1].strip()
        assert len(list(calls(name, example))) == 1, f"{function.name}: {example}"


@pytest.mark.parametrize("name", PACKS)
def test_examples_name_what_there_is(name):
    known = functions(name)
    readme = (FOLDER / name / "README.md").read_text()
    texts = re.findall(r"```python\n(.*?)```", readme, re.S)
    texts += [ast.get_docstring(function).split("Example:\n")[1].strip() for function in known.values()]
    found = [call for text in texts for call in calls(name, text)]
    assert len(found) > len(known)
    for call in found:
        function = known[call.func.attr]
        given = [keyword.arg for keyword in call.keywords]
        names = [argument.arg for argument in function.args.args]
        required = names[: len(names) - len(function.args.defaults)]
        assert set(given) <= set(names) and set(required) <= set(given), f"{name}.{call.func.attr}({', '.join(given)})"
