"""A pytest fixture: ``onetool_host`` stands for OneTool in tests of tools."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onetool import Host, _host


@pytest.fixture
def onetool_host() -> Iterator[Host]:
    """What tools ask OneTool for is answered from this, and what they tell is kept in it."""
    host = Host()
    token = _host.set(host)
    try:
        yield host
    finally:
        _host.reset(token)
