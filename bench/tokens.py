#!/usr/bin/env python3
"""Counts the tokens that tools cost a model: with plain MCP, FastMCP's code mode, and ours. See README.md.

    python3 bench/tokens.py [--onetool PATH] [--tools 100 500 1000]

Everything is scripted and deterministic. It counts what a model must read (definitions, results) and write (arguments,
code), but not its other text. The tokenizer is OpenAI's o200k_base, from a package that includes its data.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "servers")]


@dataclass(frozen=True)
class Task:
    """A question, the calls that answer it over plain MCP, and the code that answers it; each must give the answer."""

    question: str
    calls: Callable[[], list[tuple[str, dict]]]
    ours: str
    code: str
    needs: list[str]
    answer: str


def tasks() -> list[Task]:
    import office

    invoices = office.answer("list_invoices", {"status": "overdue"})
    debtor = max(invoices, key=lambda invoice: invoice["amount"])
    open_tickets = office.answer("list_tickets", {"state": "open", "assignee": "ann"})
    orders = office.answer("list_orders", {"since": "2026-03-01"})
    errors = office.answer("query_logs", {"service": "gateway", "level": "error"})
    tickers = ["ACME", "GLOB", "INIT", "UMBR", "HOOL"]
    prices = {ticker: office.answer("get_price", {"ticker": ticker})["price"] for ticker in tickers}
    largest = max(office.DOCUMENTS, key=lambda document: document["bytes"])
    bern = office.answer("search_customers", {"query": "Bern"})
    turnover = sum(order["quantity"] * order["price"] for order in orders if order["country"] == "CH")
    # The unpaid invoices of all customers in Bern.
    owed = sum(i["amount"] for i in office.INVOICES if i["status"] != "paid" and i["customer_id"] in [c["id"] for c in bern])
    return [
        Task("how much money is overdue in total", lambda: [("list_invoices", {"status": "overdue"})],
             "sum(i['amount'] for i in billing.list_invoices(status='overdue'))",
             "r = await call_tool('list_invoices', {'status': 'overdue'})\nreturn sum(i['amount'] for i in r['result'])",
             ["list_invoices"], str(sum(i["amount"] for i in invoices))),
        Task("email address of the customer with the largest overdue invoice",
             lambda: [("list_invoices", {"status": "overdue"}), ("get_customer", {"id": debtor["customer_id"]})],
             "worst = max(billing.list_invoices(status='overdue'), key=lambda i: i['amount'])\ncrm.get_customer(id=worst['customer_id'])['email']",
             "r = await call_tool('list_invoices', {'status': 'overdue'})\nworst = max(r['result'], key=lambda i: i['amount'])\nc = await call_tool('get_customer', {'id': worst['customer_id']})\nreturn c['email']",
             ["list_invoices", "get_customer"], office.answer("get_customer", {"id": debtor["customer_id"]})["email"]),
        Task("how many open support tickets does ann have by subject", lambda: [("list_tickets", {"state": "open", "assignee": "ann"})],
             "counts = {}\nfor t in support.list_tickets(state='open', assignee='ann'):\n    counts[t['subject']] = counts.get(t['subject'], 0) + 1\ncounts",
             "counts = {}\nr = await call_tool('list_tickets', {'state': 'open', 'assignee': 'ann'})\nfor t in r['result']:\n    counts[t['subject']] = counts.get(t['subject'], 0) + 1\nreturn counts",
             ["list_tickets"], open_tickets[0]["subject"]),
        Task("close all open tickets of ann about a slow app",
             lambda: [("list_tickets", {"state": "open", "assignee": "ann"})] + [("close_ticket", {"id": t["id"], "comment": "Fixed in 2.1."}) for t in open_tickets if t["subject"] == "App is slow"],
             "[support.close_ticket(id=t['id'], comment='Fixed in 2.1.')['id'] for t in support.list_tickets(state='open', assignee='ann') if t['subject'] == 'App is slow']",
             "r = await call_tool('list_tickets', {'state': 'open', 'assignee': 'ann'})\ndone = []\nfor t in r['result']:\n    if t['subject'] == 'App is slow':\n        c = await call_tool('close_ticket', {'id': t['id'], 'comment': 'Fixed in 2.1.'})\n        done.append(c['id'])\nreturn done",
             ["list_tickets", "close_ticket"], str(next((t["id"] for t in open_tickets if t["subject"] == "App is slow"), "[]"))),
        Task("turnover of the web shop in Switzerland since March", lambda: [("list_orders", {"since": "2026-03-01"})],
             "sum(o['quantity'] * o['price'] for o in shop.list_orders(since='2026-03-01') if o['country'] == 'CH')",
             "r = await call_tool('list_orders', {'since': '2026-03-01'})\nreturn sum(o['quantity'] * o['price'] for o in r['result'] if o['country'] == 'CH')",
             ["list_orders"], str(turnover)),
        Task("which error messages did the gateway service log and how often", lambda: [("query_logs", {"service": "gateway", "level": "error"})],
             "counts = {}\nfor line in ops.query_logs(service='gateway', level='error'):\n    counts[line['message']] = counts.get(line['message'], 0) + 1\ncounts",
             "counts = {}\nr = await call_tool('query_logs', {'service': 'gateway', 'level': 'error'})\nfor line in r['result']:\n    counts[line['message']] = counts.get(line['message'], 0) + 1\nreturn counts",
             ["query_logs"], errors[0]["message"]),
        Task("share prices of five companies", lambda: [("get_price", {"ticker": ticker}) for ticker in tickers],
             f"{{t: exchange.get_price(ticker=t)['price'] for t in {tickers}}}",
             f"prices = {{}}\nfor t in {tickers}:\n    r = await call_tool('get_price', {{'ticker': t}})\n    prices[t] = r['price']\nreturn prices",
             ["get_price"], str(prices["HOOL"])),
        Task("first sentence of the largest document in the contracts folder",
             lambda: [("list_documents", {"folder": "/contracts"}), ("read_document", {"path": largest["path"]})],
             "largest = max(archive.list_documents(folder='/contracts'), key=lambda d: d['bytes'])\narchive.read_document(path=largest['path'])['text'].split('. ')[0]",
             "r = await call_tool('list_documents', {'folder': '/contracts'})\nlargest = max(r['result'], key=lambda d: d['bytes'])\nd = await call_tool('read_document', {'path': largest['path']})\nreturn d['text'].split('. ')[0]",
             ["list_documents", "read_document"], largest["path"].removesuffix(".txt")),
        Task("what do our customers in Bern still owe us",
             lambda: [("search_customers", {"query": "Bern"}), ("list_invoices", {})],
             "bern = [c['id'] for c in crm.search_customers(query='Bern')]\nsum(i['amount'] for i in billing.list_invoices() if i['status'] != 'paid' and i['customer_id'] in bern)",
             "r = await call_tool('search_customers', {'query': 'Bern'})\nbern = [c['id'] for c in r['result']]\nr = await call_tool('list_invoices', {})\nreturn sum(i['amount'] for i in r['result'] if i['status'] != 'paid' and i['customer_id'] in bern)",
             ["search_customers", "list_invoices"], str(owed)),
        Task("mail ann how many hours of meetings there are on 2026-05-04",
             lambda: [("list_events", {"day": "2026-05-04"}), ("send_email", {"to": "ann@acme.example", "subject": "Meetings", "body": f"{sum(e['minutes'] for e in office.EVENTS) / 60} hours"})],
             "hours = sum(e['minutes'] for e in planner.list_events(day='2026-05-04')) / 60\nmail.send_email(to='ann@acme.example', subject='Meetings', body=f'{hours} hours')",
             "r = await call_tool('list_events', {'day': '2026-05-04'})\nhours = sum(e['minutes'] for e in r['result']) / 60\nreturn await call_tool('send_email', {'to': 'ann@acme.example', 'subject': 'Meetings', 'body': f'{hours} hours'})",
             ["list_events", "send_email"], "ann@acme.example"),
    ]  # fmt: skip


@dataclass
class Cost:
    standing: int = 0
    discovery: int = 0
    work: int = 0

    @property
    def total(self) -> int:
        return self.standing + self.discovery + self.work


class Counter:
    def __init__(self) -> None:
        from rs_bpe.bpe import openai

        self._tokenizer = openai.o200k_base()

    def __call__(self, *things: object) -> int:
        texts = (thing if isinstance(thing, str) else json.dumps(thing, ensure_ascii=False, separators=(",", ":")) for thing in things)
        return sum(self._tokenizer.count(text) for text in texts)


def standing(count: Counter, client) -> int:
    """Counts what is part of every conversation: the instructions and the list of tools."""
    instructions = client.initialize().result.get("instructions", "")
    return count(instructions, client.request("tools/list", {}).result)


def checked(task: Task, text: str) -> str:
    if task.answer not in text:
        raise SystemExit(f"{task.question}: expected {task.answer!r}, got {text[:300]!r}")
    return text


def plain_mcp(count: Counter, tools: int, asked: list[Task]) -> Cost:
    from subjects import start_python_server

    cost = Cost()
    with start_python_server("office", "--tools", str(tools)) as client:
        cost.standing = standing(count, client)
        for task in asked:
            for name, arguments in task.calls():
                cost.work += count(name, arguments, client.call(name, arguments).text)
    return cost


def code_mode(count: Counter, tools: int, asked: list[Task]) -> Cost:
    from subjects import start_python_server

    cost = Cost()
    with start_python_server("fastmcp_office", "--tools", str(tools)) as client:
        cost.standing = standing(count, client)
        for task in asked:
            for name, arguments in (("search", {"query": task.question}), ("get_schema", {"tools": task.needs})):
                cost.discovery += count(name, arguments, client.call(name, arguments).text)
            arguments = {"code": task.code}
            cost.work += count("execute", arguments, checked(task, client.call("execute", arguments).text))
    return cost


def onetool(count: Counter, tools: int, asked: list[Task], binary: Path) -> Cost:
    import office
    from subjects import SERVERS, Project

    services = sorted({service for service, _ in office.tools(tools)})
    command = f"command: {json.dumps(sys.executable)}"
    servers = "".join(
        f"  {service}:\n    {command}\n    args: {json.dumps([str(SERVERS / 'office.py'), '--tools', str(tools), '--service', service])}\n" for service in services
    )
    cost = Cost()
    with Project(f"servers:\n{servers}") as project, project.serve(binary) as client:
        client.initialize()
        # First connects every server once, so that the measured start is like any later one.
        while "disconnected" in client.call("run", {"command": "ot.health()"}).text:
            pass
        client.close()
        with project.serve(binary) as client:
            cost.standing = standing(count, client)
            for task in asked:
                arguments = {"command": f"ot.help(query={json.dumps(task.question)})"}
                found = client.call("run", arguments).text
                missing = [name for name in task.needs if f".{name}(" not in found]
                cost.discovery += count("run", arguments, found)
                if missing:
                    # A second search, as a model would make.
                    arguments = {"command": f"ot.tools(pattern={json.dumps(missing[0])})"}
                    cost.discovery += count("run", arguments, client.call("run", arguments).text)
                arguments = {"command": task.ours}
                cost.work += count("run", arguments, checked(task, client.call("run", arguments).text))
    return cost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onetool", type=Path, default=HERE.parent / "target/release/onetool", help="the binary to measure")
    parser.add_argument("--tools", type=int, nargs="+", default=[100, 500, 1000], help="how many tools there are")
    chosen = parser.parse_args()
    chosen.onetool = chosen.onetool.resolve()
    from run import ENVIRONMENT, environment_python

    python = environment_python()
    if Path(sys.prefix).resolve() != ENVIRONMENT.resolve():
        os.execv(python, [str(python), str(Path(__file__).resolve()), *sys.argv[1:]])
    count, asked = Counter(), tasks()
    print(f"tokens (o200k_base) for {len(asked)} tasks\n")
    print(f"{'tools':>6}  {'':<22}{'standing':>10}{'discovery':>11}{'work':>9}{'together':>10}")
    for tools in chosen.tools:
        rows = [
            ("plain MCP", plain_mcp(count, tools, asked)),
            ("FastMCP code mode", code_mode(count, tools, asked)),
            ("onetool", onetool(count, tools, asked, chosen.onetool)),
        ]
        for name, cost in rows:
            print(f"{tools:>6}  {name:<22}{cost.standing:>10,}{cost.discovery:>11,}{cost.work:>9,}{cost.total:>10,}")
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
