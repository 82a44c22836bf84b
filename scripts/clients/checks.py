"""What every client tries, in terms of a few operations that each client offers in its own way."""

import asyncio
import json
import sys

CHECKS = ["run", "error", "image", "progress", "logging", "resources", "prompts", "ask", "elicitation", "sampling", "cancel", "idle"]


class Unsupported(Exception):
    """This client cannot do that, whatever the server is."""


async def attempt(check, client):
    if check == "run":
        text, failed, _ = await client.run("40 + 2")
        assert (text, failed) == ("42", False), text
    elif check == "error":
        text, failed, _ = await client.run("1 / 0")
        assert failed and "ZeroDivisionError" in text, text
    elif check == "image":
        _, failed, kinds = await client.run("up.image()")
        assert not failed and "image" in kinds, kinds
    elif check == "progress":
        seen = []
        text, failed, _ = await client.run("up.steps()", progress=seen.append)
        assert not failed and seen, (text, seen)
        assert all(a < b for a, b in zip(seen, seen[1:])), seen
    elif check == "logging":
        seen = await client.logged("1")
        assert seen, "no message"
    elif check == "resources":
        text = await client.read("ot://tools")
        assert "file.read" in text, text[:200]
    elif check == "prompts":
        text = await client.prompt("greet", {"name": "Ada"})
        assert "Ada" in text, text
    elif check == "ask":
        client.asked.clear()
        text, failed, _ = await client.run("file.write('asked.txt', 'x'); 'written'")
        assert not failed and text == "written", text
        assert any("file.write" in question for question in client.asked), client.asked
    elif check == "elicitation":
        client.asked.clear()
        text, failed, _ = await client.run("up.ask()")
        assert not failed and client.asked, (text, client.asked)
    elif check == "sampling":
        text, failed, _ = await client.run("up.sample()")
        assert not failed and "sampled" in text, text
    elif check == "cancel":
        slow = asyncio.create_task(client.run("while True: pass"))
        await asyncio.sleep(0.5)
        slow.cancel()
        try:
            await slow
        except (asyncio.CancelledError, Exception):
            pass
        text, _, _ = await client.run("1 + 1")
        assert text == "2", text
    elif check == "idle":
        # Longer than every timer of the server, which are shortened for this.
        await asyncio.sleep(2)
        text, _, _ = await client.run("'awake'")
        assert text == "awake", text


async def all_checks(client):
    results = {}
    for check in CHECKS:
        try:
            await asyncio.wait_for(attempt(check, client), 40)
            results[check] = "ok"
        except Unsupported as reason:
            results[check] = f"left out: {reason}"
        except BaseException as error:  # noqa: BLE001 - a cancelled check is a failed one
            results[check] = f"FAILED: {type(error).__name__}: {error}"[:300]
    json.dump(results, sys.stdout)
