"""What every client tries, in terms of a few operations that each client offers in its own way."""

import asyncio
import json
import os
import sys
from pathlib import Path

CHECKS = [
    "run", "error", "image", "progress", "logging", "resources", "prompts", "ask", "elicitation", "sampling", "task", "cancel",
    "idle", "restart",
]


ENDLESS = "while True: up.tick()"


class Unsupported(Exception):
    """This client cannot do that, whatever the server is."""


class PythonClient:
    """What clients in Python have in common. `session` is whatever talks to the server."""

    def __init__(self):
        self.asked, self.messages, self.session = [], [], None

    def answer(self, message, properties):
        """Says yes to everything that is asked."""
        self.asked.append(message)
        return {name: True if shape.get("type") == "boolean" else "yes" for name, shape in properties.items()}

    async def on_log(self, message):
        self.messages.append(message)

    async def call(self, command, progress):
        raise NotImplementedError

    async def set_level(self):
        await self.session.set_logging_level("debug")

    def revision(self):
        """What was agreed on with the server."""
        raise NotImplementedError

    async def tell_cancelled(self, command):
        """Tells the server that nobody waits for a command, where cancelling the task that waits does not."""

    async def again(self, command):
        """Runs a command with a connection of its own."""
        raise NotImplementedError

    async def task(self, _command):
        raise Unsupported("it has no tasks")

    async def run(self, command, progress=None):
        return self.read_result(await self.call(command, progress))

    def read_result(self, result):
        text = "\n".join(block.text for block in result.content if block.type == "text")
        failed = getattr(result, "isError", None) or getattr(result, "is_error", None)
        return text, bool(failed), [block.type for block in result.content]

    async def logged(self, command):
        self.messages.clear()
        await self.set_level()
        await self.run(command)
        for _ in range(50):
            if self.messages:
                break
            await asyncio.sleep(0.1)
        return list(self.messages)

    async def read(self, uri):
        result = await self.session.read_resource(uri)
        return (result if isinstance(result, list) else result.contents)[0].text

    async def prompt(self, name, arguments):
        return (await self.session.get_prompt(name, arguments)).messages[0].content.text


async def attempt(check, client):
    if check == "run":
        text, failed, _ = await client.run("40 + 2")
        assert (text, failed) == ("42", False), text
    elif check == "error":
        text, failed, _ = await client.run("1 / 0")
        assert failed and "ZeroDivisionError" in text, text
    elif check == "image":
        for server in ("up", "up_new"):
            _, failed, kinds = await client.run(f"{server}.image()")
            assert not failed and "image" in kinds, (server, kinds)
    elif check == "progress":
        for server in ("up", "up_new"):
            seen = []
            text, failed, _ = await client.run(f"{server}.steps()", progress=seen.append)
            assert not failed and seen, (server, text, seen)
            assert all(a < b for a, b in zip(seen, seen[1:])), (server, seen)
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
        for server in ("up", "up_new"):
            client.asked.clear()
            text, failed, _ = await client.run(f"{server}.ask()")
            assert not failed and client.asked and "answer" in text, (server, text, client.asked)
            client.asked.clear()
            text, failed, _ = await client.run(f"{server}.open()")
            assert not failed and "https://example.org/in" in client.asked and "accept" in text, (server, text, client.asked)
    elif check == "sampling":
        for server in ("up", "up_new"):
            text, failed, _ = await client.run(f"{server}.sample()")
            assert not failed and "sampled" in text, (server, text)
    elif check == "task":
        text, failed, _ = await client.task("up.steps()")
        assert not failed and "done" in text, text
    elif check == "cancel":
        before, _, _ = await client.run("up.ticks()")
        slow = asyncio.create_task(client.run(ENDLESS))
        while (await client.run("up.ticks()"))[0] == before:
            await asyncio.sleep(0.05)
        await client.tell_cancelled(ENDLESS)
        slow.cancel()
        try:
            await slow
        except (asyncio.CancelledError, Exception):
            pass
        await stopped(client)
    elif check == "idle":
        # Longer than every timer of the server, which are shortened for this.
        await asyncio.sleep(2)
        text, _, _ = await client.run("'awake'")
        assert text == "awake", text
    elif check == "restart":
        place = os.environ.get("TRY_CLIENTS_RESTART")
        if place:
            await restarted(place)
            text, _, _ = await client.run("'back'")
        else:
            # A client on stdio starts its server itself: it does so again.
            text, _, _ = await client.again("'back'")
        assert text == "back", text


async def stopped(client):
    """Waits until a run that calls `tick` makes no more calls."""
    last, since = None, 0
    while since < 5:
        now, failed, _ = await client.run("up.ticks()")
        assert not failed, now
        last, since = now, since + 1 if now == last else 0
        await asyncio.sleep(0.1)


async def restarted(place):
    """Has the server restarted by whoever started it."""
    Path(place, "restart").touch()
    while not Path(place, "restarted").exists():
        await asyncio.sleep(0.05)


async def all_checks(client):
    revision, results = client.revision(), {}
    for check in CHECKS:
        try:
            await asyncio.wait_for(attempt(check, client), 40)
            results[check] = "ok"
        except Unsupported as reason:
            results[check] = f"left out: {reason}"
        except BaseException as error:  # noqa: BLE001 - a cancelled check is a failed one
            results[check] = f"FAILED: {type(error).__name__}: {error}"[:300]
    json.dump({"revision": revision, "checks": results}, sys.stdout)
