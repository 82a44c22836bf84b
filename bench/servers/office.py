"""An office as an MCP server without any package: a dozen tools that work on data, and any number of others.

The others are those of `bench/search/`, with their real parameters; they are listed but never called. `--service NAME`
serves the tools of one service only.
"""

import argparse
import hashlib
import json
import re
import sys
from pathlib import Path

SETS = Path(__file__).resolve().parent.parent / "search"

# Service, name, description, parameters (name, type, description, required).
WORKING = [
    ("billing", "list_invoices", "List the invoices of the company, newest first.", [("status", "string", "open, paid or overdue; all when left out", False)]),
    ("crm", "get_customer", "Get a customer with contact data and plan.", [("id", "string", "The customer's id", True)]),
    ("crm", "search_customers", "Search customers by name or city.", [("query", "string", "What to look for", True)]),
    ("support", "list_tickets", "List support tickets with their whole text.", [("state", "string", "open or closed", False), ("assignee", "string", "Whose tickets", False)]),
    ("support", "close_ticket", "Close a support ticket with a comment.", [("id", "integer", "The ticket's number", True), ("comment", "string", "What the customer reads", True)]),
    ("mail", "send_email", "Send an email to one person.", [("to", "string", "Address", True), ("subject", "string", "Subject line", True), ("body", "string", "Plain text", True)]),
    ("planner", "list_events", "List the events of a day.", [("day", "string", "ISO date", True)]),
    ("shop", "list_orders", "List the orders of the web shop since a date.", [("since", "string", "ISO date", True)]),
    ("exchange", "get_price", "Get the current price of a share.", [("ticker", "string", "Symbol, e.g. ACME", True)]),
    ("archive", "list_documents", "List the documents in a folder of the archive.", [("folder", "string", "Path of the folder", True)]),
    ("archive", "read_document", "Read the text of a document.", [("path", "string", "Path of the document", True)]),
    ("ops", "query_logs", "Query the log lines of a service.", [("service", "string", "Name of the service", True), ("level", "string", "info, warning or error", False)]),
]  # fmt: skip


def _number(*parts: object) -> int:
    """Returns a number that is deterministic but shows no pattern."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")


def _pick(options: list, *parts: object) -> object:
    return options[_number(*parts) % len(options)]


CITIES = ["Bern", "Lyon", "Porto", "Graz", "Gent", "Turin"]
CUSTOMERS = [
    {"id": f"C{n:03}", "name": f"Customer {n:03} Ltd", "email": f"office{n}@customer{n:03}.example", "city": _pick(CITIES, "city", n), "plan": _pick(["free", "team", "business"], "plan", n), "since": f"20{10 + n % 14}-0{1 + n % 9}-12"}
    for n in range(40)
]  # fmt: skip
INVOICES = [
    {"id": f"I{n:04}", "customer_id": f"C{_number('owner', n) % 40:03}", "amount": 50 + _number("amount", n) % 5000, "currency": "EUR", "status": _pick(["open", "paid", "paid", "overdue"], "status", n), "due": f"2026-{1 + n % 9:02}-15"}
    for n in range(60)
]  # fmt: skip
TICKETS = [
    {"id": 1000 + n, "subject": _pick(["Login fails", "Invoice is wrong", "App is slow", "Cannot export", "Question about plans"], "subject", n), "state": _pick(["open", "closed", "closed"], "state", n), "assignee": _pick(["ann", "bob", "cid"], "assignee", n), "body": "Dear support, " + "this has happened again since the last update and we would like to know when it is fixed. " * 3}
    for n in range(80)
]  # fmt: skip
ORDERS = [
    {"id": n, "sku": _pick(["mug", "cap", "bag", "pen"], "sku", n), "quantity": 1 + _number("quantity", n) % 5, "price": 5 + _number("price", n) % 40, "country": _pick(["DE", "FR", "CH", "PT"], "country", n), "date": f"2026-0{1 + n % 6}-{1 + n % 28:02}"}
    for n in range(120)
]  # fmt: skip
EVENTS = [
    {"title": _pick(["Planning", "Review", "Interview", "Lunch"], "title", n), "start": f"{8 + n}:00", "minutes": 30 + 15 * (_number("minutes", n) % 4), "attendees": [f"{name}@acme.example" for name in ("ann", "bob", "cid")]}
    for n in range(9)
]  # fmt: skip
DOCUMENTS = [{"path": f"/contracts/contract_{n:03}.txt", "bytes": _number("bytes", n) % 90_000, "modified": f"2026-0{1 + n % 9}-02"} for n in range(100)]
LOGS = [
    {"time": f"12:{n % 60:02}:07", "level": _pick(["info", "info", "info", "warning", "error"], "level", n), "message": _pick(["request served", "cache miss", "upstream timed out", "retrying", "connection reset"], "message", n), "request": f"r{_number('request', n) % 10**8}"}
    for n in range(200)
]  # fmt: skip


def answer(name: str, arguments: dict) -> object:
    """Returns the result of a tool that works."""
    wanted = arguments.get
    match name:
        case "list_invoices":
            return [invoice for invoice in INVOICES if wanted("status") in (None, invoice["status"])]
        case "get_customer":
            return next(customer for customer in CUSTOMERS if customer["id"] == wanted("id"))
        case "search_customers":
            return [customer for customer in CUSTOMERS if wanted("query").lower() in json.dumps(customer).lower()]
        case "list_tickets":
            return [t for t in TICKETS if wanted("state") in (None, t["state"]) and wanted("assignee") in (None, t["assignee"])]
        case "close_ticket":
            return {"id": wanted("id"), "state": "closed"}
        case "send_email":
            return {"sent": True, "to": wanted("to")}
        case "list_events":
            return EVENTS
        case "list_orders":
            return [order for order in ORDERS if order["date"] >= wanted("since")]
        case "get_price":
            return {"ticker": wanted("ticker"), "price": _number("price", wanted("ticker")) % 900, "currency": "EUR"}
        case "list_documents":
            return DOCUMENTS
        case "read_document":
            return {"path": wanted("path"), "text": f"Contract of {wanted('path')}. " + "The parties agree on what follows, and on nothing else. " * 60}
        case "query_logs":
            return [line for line in LOGS if wanted("level") in (None, line["level"])]
    raise ValueError(f"{name} is only listed")


def _schema(parameters: list[tuple[str, str, str, bool]]) -> dict:
    properties = {name: {"type": kind, "description": text} for name, kind, text, _ in parameters}
    return {"type": "object", "properties": properties, "required": [name for name, *_, needed in parameters if needed]}


def _listed() -> list[tuple[str, dict]]:
    """Returns the tools of the labelled set, with their services."""
    found, service = [], ""
    for file in sorted(SETS.glob("tools_*.txt")):
        for line in file.read_text().splitlines():
            if line.startswith("= "):
                service = line[2:].split(":")[0]
            elif match := re.match(r"(\w+)\((.*?)\) (.*)", line):
                name, inside, description = match.groups()
                parameters = []
                for at, part in enumerate(filter(None, inside.split("; "))):
                    head, _, text = part.partition(": ")
                    parameters.append((head.split(" {")[0], "string", text or f"The {head.split(' {')[0]} to use", at == 0))
                found.append((service, {"name": name, "description": description, "inputSchema": _schema(parameters)}))
    return found


def tools(count: int) -> list[tuple[str, dict]]:
    """Returns `count` tools with distinct names, with their services."""
    chosen = [(service, {"name": name, "description": text, "inputSchema": _schema(parameters)}) for service, name, text, parameters in WORKING]
    names = {tool["name"] for _, tool in chosen}
    turn = 0
    while len(chosen) < count:
        for service, tool in _listed():
            name = tool["name"] if turn == 0 else f"{tool['name']}_{turn + 1}"
            if name not in names and len(chosen) < count:
                names.add(name)
                chosen.append((service if turn == 0 else f"{service}{turn + 1}", {**tool, "name": name}))
        turn += 1
    return chosen


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", type=int, default=100)
    parser.add_argument("--service", help="only the tools of this service")
    chosen = parser.parse_args()
    offered = [tool for service, tool in tools(chosen.tools) if chosen.service in (None, service)]

    def respond(method: str, params: dict) -> dict:
        if method == "initialize":
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "office", "version": "1"}}
        if method == "tools/list":
            return {"tools": offered}
        if method == "tools/call":
            value = answer(params["name"], params.get("arguments") or {})
            return {"content": [{"type": "text", "text": json.dumps(value)}]}
        return {}

    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message and "method" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": respond(message["method"], message.get("params") or {})}
            sys.stdout.buffer.write(json.dumps(reply, separators=(",", ":")).encode() + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
