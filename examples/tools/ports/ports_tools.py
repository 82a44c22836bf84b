# /// script
# requires-python = ">=3.9"
# dependencies = []
# ///
"""Check which services answer. Written with `async def`: many calls, and many checks in one call, run concurrently."""

from __future__ import annotations

import asyncio
import time

from onetool import progress

pack = "ports"

__all__ = ["check", "wait_for"]

MAX_AT_ONCE = 50


async def check(targets: list[str], timeout: float = 2.0) -> list[dict]:
    """Check which of several TCP services accept connections.

    Args:
        targets: The services as "host:port".
        timeout: The maximum number of seconds that each may take to answer.

    Returns:
        For each target, in the given order: target, open, and ms or error.

    Example:
        ports.check(targets=["127.0.0.1:22", "127.0.0.1:5432"])
    """
    at_once = asyncio.Semaphore(MAX_AT_ONCE)
    done = 0

    async def one(target: str) -> dict:
        nonlocal done
        async with at_once:
            result = await _connect(target, timeout)
        done += 1
        progress(done, len(targets), target)
        return result

    return list(await asyncio.gather(*map(one, targets)))


async def wait_for(target: str, timeout: float = 30.0) -> bool:
    """Wait until a TCP service accepts connections.

    Args:
        target: The service as "host:port".
        timeout: The maximum number of seconds to wait.

    Returns:
        Whether it answered in time.

    Example:
        ports.wait_for(target="127.0.0.1:8080", timeout=10)
    """
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if (await _connect(target, 1.0))["open"]:
            return True
        await asyncio.sleep(0.05)
    return False


async def _connect(target: str, timeout: float) -> dict:
    host, _, port = target.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"'{target}' is not host:port")
    started = time.monotonic()
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), int(port)), timeout)
    except (OSError, asyncio.TimeoutError) as error:
        return {"target": target, "open": False, "error": str(error) or "no answer in time"}
    writer.close()
    return {"target": target, "open": True, "ms": round((time.monotonic() - started) * 1000, 1)}
