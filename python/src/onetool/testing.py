"""A pytest fixture: ``onetool_host`` replaces OneTool in tests of tools."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onetool import Host, _host


@pytest.fixture
def onetool_host() -> Iterator[Host]:
    """Answers the requests of tools, and records what they log and report."""
    host = Host()
    token = _host.set(host)
    try:
        yield host
    finally:
        _host.reset(token)
