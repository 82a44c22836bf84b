# /// script
# requires-python = ">=3.9"
# dependencies = ["python-dateutil>=2.8"]
# ///
"""Dates as people write them, and recurring dates. Its one dependency is installed on the first call."""

from __future__ import annotations

import datetime

from dateutil import parser, relativedelta, rrule

pack = "dates"

__all__ = ["parse", "between", "repeat"]


def parse(text: str, day_first: bool = False) -> datetime.datetime:
    """Parse a date in nearly any format.

    Args:
        text: The date, for example "3 May 2024, 4pm".
        day_first: Whether 03/04 is the third of April.

    Returns:
        The date and time.

    Example:
        dates.parse(text="3 May 2024, 4pm")
    """
    return parser.parse(text, dayfirst=day_first)


def between(start: str, end: str) -> dict[str, int]:
    """Compute the time between two dates in years, months and days.

    Args:
        start: The earlier date.
        end: The later date.

    Returns:
        years, months, days, and the total number of days.

    Example:
        dates.between(start="2024-02-29", end="2025-03-01")
    """
    first, last = parser.parse(start), parser.parse(end)
    span = relativedelta.relativedelta(last, first)
    return {"years": span.years, "months": span.months, "days": span.days, "total_days": (last - first).days}


def repeat(rule: str, start: str, count: int = 10) -> list[datetime.datetime]:
    """List the dates of a recurrence rule (RFC 5545).

    Args:
        rule: The rule, for example "FREQ=MONTHLY;BYDAY=1MO" for the first Monday of each month.
        start: The date to start from.
        count: The maximum number of dates to list.

    Returns:
        The dates in order.

    Example:
        dates.repeat(rule="FREQ=WEEKLY;BYDAY=TU", start="2024-01-01", count=3)
    """
    dates = rrule.rrulestr(rule, dtstart=parser.parse(start))
    return [date for date, _ in zip(dates, range(min(count, 1000)))]
