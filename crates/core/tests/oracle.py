"""A second opinion on cron and time zones: a walk over every minute with Python's zoneinfo.

Reads lines `zone<TAB>cron<TAB>start<TAB>days` and answers each with the Unix times at which the cron text fires, by walking
the wall clock of every minute of those days: a time in a gap counts at the first moment after it, one in a fold the first time.
"""

import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo


def field(text, low, high):
    values = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            first, last = low, high
        elif "-" in span:
            first, last = map(int, span.split("-"))
        else:
            first = int(span)
            last = high if step else first
        values.update(range(first, last + 1, int(step or 1)))
    return values


def matches(cron, wall):
    minute, hour, day, month, weekday = cron
    return wall.minute in minute and wall.hour in hour and wall.month in month and (
        wall.day in day and (wall.isoweekday() % 7) in weekday)


def moment(wall, zone):
    local = wall.replace(tzinfo=zone, fold=0)
    at = local.astimezone(timezone.utc)
    if at.astimezone(zone).replace(tzinfo=None) == wall:
        return at
    # In a gap: the first moment whose wall clock is past it.
    low = (wall.replace(tzinfo=zone, fold=1)).astimezone(timezone.utc)
    low, high = min(low, at), max(low, at)
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        if middle.astimezone(zone).replace(tzinfo=None) > wall:
            high = middle
        else:
            low = middle
    return high.replace(microsecond=0)


for line in sys.stdin:
    name, text, start, days = line.rstrip("\n").split("\t")
    zone = ZoneInfo(name)
    parts = text.split()
    cron = [field(p, *r) for p, r in zip(parts, [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)])]
    begin = datetime.fromtimestamp(int(start), timezone.utc)
    wall = begin.astimezone(zone).replace(tzinfo=None, second=0, microsecond=0)
    end = begin + timedelta(days=int(days))
    fires = set()
    while True:
        at = moment(wall, zone) if matches(cron, wall) else None
        if at is not None and at > begin:
            if at >= end:
                break
            fires.add(int(at.timestamp()))
        if at is None and wall > (end + timedelta(days=2)).replace(tzinfo=None):
            break
        wall += timedelta(minutes=1)
    print(" ".join(str(at) for at in sorted(fires)))
