"""The report: rows with our figure, the peer's, their ratio and the target (`bar`); as a table and as JSON."""

from dataclasses import dataclass, field
from typing import Any

from measure import Difference, Sample

Figure = Sample | Difference | float | None


@dataclass(frozen=True)
class Bar:
    """The target of a row: at most an absolute figure, or a multiple of the peer's (`times`)."""

    most: float
    times: bool = False

    def limit(self, peer: float | None) -> float | None:
        if not self.times:
            return self.most
        return None if peer is None else peer * self.most


@dataclass
class Row:
    """One line. `unit` is ms, B, MB, or empty for a plain number; smaller is always better."""

    what: str
    unit: str
    ours: Figure = None
    peer: Figure = None
    bar: Bar | None = None
    note: str = ""
    failure: str = ""
    topic: str = field(default="")

    def met(self) -> bool | None:
        return within(middle(self.ours), middle(self.peer), self.bar)

    def met_at_best(self) -> bool | None:
        return within(best(self.ours), best(self.peer), self.bar)

    def ratio(self) -> float | None:
        return ratio_of(middle(self.ours), middle(self.peer))

    def at_best(self) -> str:
        """Returns the smallest values and their ratio: they are least affected by other load on the machine."""
        if not isinstance(self.ours, Sample | Difference):
            return ""
        own, peer = best(self.ours), best(self.peer)
        shown = number(own, self.unit)
        return shown if peer is None else f"{shown} : {number(peer, self.unit)} = {times(ratio_of(own, peer))}"

    def verdict(self) -> str:
        if self.failure:
            return "FAILED"
        if self.met() is None:
            return ""
        return "yes" if self.met() else "at best" if self.met_at_best() else "NO"

    def brief(self) -> str:
        return self.failure or self.note if self.ours is None else " | ".join(self.cells()[1:])

    def cells(self) -> list[str]:
        bar = ""
        if self.bar:
            bar = f"≤ {self.bar.most:.3g} × peer" if self.bar.times else f"≤ {show(self.bar.most, self.unit)}"
        return [
            self.what,
            show(self.ours, self.unit),
            show(self.peer, self.unit),
            times(self.ratio()),
            self.at_best(),
            bar,
            self.verdict(),
            self.failure or self.note,
        ]


def middle(figure: Figure) -> float | None:
    return figure.median if isinstance(figure, Sample | Difference) else figure


def best(figure: Figure) -> float | None:
    return figure.best if isinstance(figure, Sample | Difference) else figure


def within(own: float | None, peer: float | None, bar: Bar | None) -> bool | None:
    limit = bar.limit(peer) if bar else None
    return None if own is None or limit is None else own <= limit


def ratio_of(own: float | None, peer: float | None) -> float | None:
    return peer / own if own and peer and own > 0 else None


def times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.1f}×" if ratio < 10 else f"{ratio:.0f}×"


def show(figure: Figure, unit: str) -> str:
    if figure is None:
        return "–"
    if isinstance(figure, Sample):
        if len(figure.values) < 5:
            return show(figure.median, unit)
        return f"{show(figure.median, unit)} (p95 {number(figure.p95, unit)})"
    if isinstance(figure, Difference):
        return show(figure.median, unit)
    return f"{number(figure, unit)} {unit}".rstrip()


def number(value: float, unit: str) -> str:
    if unit == "B":
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"


HEAD = ["what", "ours", "peer", "peer/ours", "at best", "bar", "met", "note"]


def render(rows: list[Row], facts: dict[str, Any]) -> str:
    lines = [
        f"{facts['onetool']} beside {facts['peer']}",
        f"{facts['system']}, Python {facts['python']}, load {facts['load_before']} → {facts['load_after']}; "
        "medians (p95), after warm-up; smaller is better",
    ]
    table = [HEAD] + [row.cells() for row in rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEAD) - 1)]
    topic = None
    lines += ["", line_of(HEAD, widths), "  ".join("-" * width for width in widths)]
    for row, cells in zip(rows, table[1:], strict=True):
        if row.topic != topic:
            topic = row.topic
            lines.append(f"[{topic}]")
        lines.append(line_of(cells, widths))
    return "\n".join(lines)


def line_of(cells: list[str], widths: list[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths)]
    return "  ".join([*padded, cells[-1]]).rstrip()


def as_json(rows: list[Row], facts: dict[str, Any], failures: list[str]) -> dict[str, Any]:
    def figure(value: Figure) -> Any:
        return value.as_json() if isinstance(value, Sample | Difference) else value

    return {
        "facts": facts,
        "failures": failures,
        "rows": [
            {
                "topic": row.topic,
                "what": row.what,
                "unit": row.unit,
                "ours": figure(row.ours),
                "peer": figure(row.peer),
                "peer_over_ours": row.ratio(),
                "bar": None if row.bar is None else {"most": row.bar.most, "times_peer": row.bar.times},
                "met": row.met(),
                "met_at_best": row.met_at_best(),
                "note": row.note,
                "failure": row.failure,
            }
            for row in rows
        ],
    }
