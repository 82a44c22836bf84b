"""The package behaves like the module in a worker."""

import asyncio

import pytest

import onetool


def test_outside_of_onetool_nothing_is_given():
    with pytest.raises(RuntimeError, match="onetool_host"):
        onetool.get_secret("KEY")
    onetool.log("nobody listens")
    onetool.progress(1)


def test_secrets_are_required_unless_a_default_is_given(onetool_host):
    onetool_host.secrets["KEY"] = "value"
    assert onetool.get_secret("KEY") == "value"
    assert onetool.get_secret("OTHER", None) is None
    with pytest.raises(LookupError, match="add `OTHER: value` to secrets.yaml"):
        onetool.get_secret("OTHER")


def test_configuration_is_found_by_pack_and_key(onetool_host):
    onetool_host.config["a", "limit"] = 5
    assert onetool.get_config("a", "limit") == onetool.get_config("a.limit") == 5
    assert onetool.get_config("a", "other", 7) == 7


def test_other_tools_are_functions(onetool_host):
    async def slow(n):
        return n + 1

    onetool_host.tools.update({"b.double": lambda number: number * 2, "b.slow": slow})
    assert onetool.call_tool("b.double", number=4) == 8
    assert asyncio.run(onetool.call_tool_async("b.double", number=4)) == 8
    with pytest.raises(AttributeError, match="no tool 'b.none'"):
        onetool.call_tool("b.none")


def test_what_a_tool_tells_is_kept(onetool_host):
    with onetool.log("working", pages=2) as span:
        span.add(found=3)
    onetool.progress(1, 2, "half")
    assert [entry.message for entry in onetool_host.logged] == ["working", "working (end)"]
    assert onetool_host.logged[1].fields["found"] == 3
    assert onetool_host.progress == [(1.0, 2.0, "half")]


def test_the_module_in_a_worker_offers_the_same_names():
    from pathlib import Path

    host = Path(__file__).resolve().parents[2] / "crates/onetool-worker/src/offered.py"
    offered = next(line for line in host.read_text().splitlines() if line.strip().startswith("offered = ("))
    names = {name.strip() for name in offered.split("(", 1)[1].rstrip(")").split(",")}
    assert names <= set(onetool.__all__)


def test_paths_stay_below_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert onetool.resolve_path("a/b.txt") == tmp_path.resolve() / "a/b.txt"
    with pytest.raises(PermissionError):
        onetool.resolve_path("../elsewhere")


def test_a_declared_function_stays_what_it_is():
    def look():
        return 1

    assert onetool.tool(look) is look
    assert onetool.tool(read_only=True)(look) is look
    assert onetool.tool(idempotent=True)(look)() == 1
    with pytest.raises(TypeError):
        onetool.tool(readonly=True)
