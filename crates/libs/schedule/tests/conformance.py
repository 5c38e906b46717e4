#!/usr/bin/env python3
"""Writes data/conformance.tsv: cron expressions with zone, start and next slots.

    pip install cronsim croniter tzdata
    python conformance.py > data/conformance.tsv

The expected slots come from cronsim and croniter, two independent implementations, and from
the calendar arithmetic below, which implements the daylight saving rule of this project:

- a fixed time (one minute, one hour) that falls into the gap is due at the first instant after it, and one that
  comes twice is due once, on the first pass;
- any other pattern skips the gap and is due on both passes.

The last column names the implementations that agree. Outside of daylight saving at least one must agree, or this
program fails. Where both differ at a clock change, the row says that only the rule applies.
"""

import sys
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

UTC = timezone.utc
SLOTS = 6
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
WEEKDAYS = "SUN MON TUE WED THU FRI SAT".split()
NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def value(text, names, first):
    upper = text.upper()
    return names.index(upper) + first if upper in names else int(text)


def numbers(field, low, high, names=(), first=0):
    found = set()
    for item in field.split(","):
        span, _, step = item.partition("/")
        if span == "*":
            start, end = low, high
        elif "-" in span:
            start, end = (value(part, names, first) for part in span.split("-"))
        else:
            start = end = value(span, names, first)
        found |= set(range(start, end + 1, int(step or 1)))
    return found


class Rule:
    """Expression, parsed naively."""

    def __init__(self, expression):
        fields = NAMED.get(expression, expression).split()
        self.minutes = numbers(fields[0], 0, 59)
        self.hours = numbers(fields[1], 0, 23)
        self.months = numbers(fields[3], 1, 12, MONTHS, 1)
        day_items = fields[2].split(",")
        self.last_day = "L" in day_items
        plain = ",".join(item for item in day_items if item != "L")
        self.days = numbers(plain, 1, 31) if plain else set()
        self.days_set = fields[2] != "*"
        weekday_items = fields[4].split(",")
        self.last_weekdays = {value(i[:-1], WEEKDAYS, 0) % 7 for i in weekday_items if i.endswith("L")}
        self.nth = {tuple(int(p) for p in i.split("#")) for i in weekday_items if "#" in i}
        plain = ",".join(i for i in weekday_items if not i.endswith("L") and "#" not in i)
        self.weekdays = {d % 7 for d in numbers(plain, 0, 6, WEEKDAYS, 0)} if plain else set()
        self.weekdays_set = fields[4] != "*"

    def on(self, day):
        if day.month not in self.months:
            return False
        is_last = (day + timedelta(days=1)).month != day.month
        by_day = day.day in self.days or (self.last_day and is_last)
        weekday = day.isoweekday() % 7
        by_weekday = (
            weekday in self.weekdays
            or (weekday in self.last_weekdays and (day + timedelta(days=7)).month != day.month)
            or (weekday, (day.day + 6) // 7) in self.nth
        )
        if self.days_set and self.weekdays_set:
            return by_day or by_weekday
        return by_day if self.days_set else by_weekday if self.weekdays_set else True

    def slots(self, zone, after):
        fixed = len(self.minutes) == 1 and len(self.hours) == 1
        found = set()
        day = after.astimezone(zone).date() - timedelta(days=2)
        enough_after = None
        while enough_after is None or day <= enough_after:
            if self.on(day):
                for hour in self.hours:
                    for minute in self.minutes:
                        wall = datetime(day.year, day.month, day.day, hour, minute)
                        found |= fixed_slot(zone, wall) if fixed else pattern_slots(zone, wall)
            if enough_after is None and len([s for s in found if s > after]) >= SLOTS:
                enough_after = day + timedelta(days=2)
            day += timedelta(days=1)
        return sorted(slot for slot in found if slot > after)[:SLOTS]


def passes(zone, wall):
    """Instants with the local time `wall`: none in a gap, two in a fold."""
    instants = {wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
    return {instant for instant in instants if instant.astimezone(zone).replace(tzinfo=None) == wall}


def pattern_slots(zone, wall):
    return passes(zone, wall)


def fixed_slot(zone, wall):
    exact = passes(zone, wall)
    if exact:
        return {min(exact)}
    # In the gap: advance minute by minute to the end of the gap.
    later = wall
    while not passes(zone, later):
        later += timedelta(minutes=1)
    return {min(passes(zone, later))}


def by_cronsim(expression, zone, after):
    iterator = CronSim(expression, after.astimezone(zone))
    return [next(iterator).astimezone(UTC) for _ in range(SLOTS)]


def by_croniter(expression, zone, after):
    iterator = croniter(expression, after.astimezone(zone))
    return [iterator.get_next(datetime).astimezone(UTC) for _ in range(SLOTS)]


def attempt(implementation, *arguments):
    try:
        return implementation(*arguments)
    except Exception:  # an expression it does not read
        return None


STARTS = ["2024-02-28T23:59:00", "2025-12-31T23:59:30", "2026-03-10T10:07:00"]
PLAIN = """
* * * * *|*/5 * * * *|*/7 * * * *|0 * * * *|30 * * * *|59 23 * * *|0 0 * * *|15,45 * * * *|0-10 * * * *
5-59/10 * * * *|*/15 9-17 * * *|0 9-17/2 * * 1-5|0 */6 * * *|0 1-23/3 * * *|10,20,30 8,12 * * *|0 9 * * 1-5
0 9 * * MON-FRI|0 9 * * mon,wed,fri|30 8 * * SAT,SUN|0 12 * * 0|0 12 * * 7|0 12 * * 5-7|0 12 * * 1-6/2|0 0 1 * *
0 0 15 * *|0 0 28 * *|0 0 29 * *|0 0 30 * *|0 0 31 * *|0 0 L * *|0 0 L 2 *|30 23 L * *|0 0 15,L * *|0 0 29 2 *
0 0 29 FEB *|0 0 28,29 2 *|0 0 30 4,6,9,11 *|0 0 31 1-7 *|0 0 1 1 *|0 0 1 */3 *|0 0 1 JAN,JUL *|0 0 1 jan-mar *
0 0 */10 * *|0 0 1-7 * *|0 0 1-31/2 * *|0 0 13 * 5|0 0 1,15 * 1|0 0 L * 1|0 0 31 * 0|30 4 1,15 * 5|0 0 1 1 0
0 0 * * 5L|0 0 * * 1L|0 0 * * 0L|0 18 * 6 5L|0 0 * * 1#1|0 0 * * 5#3|0 12 * * 2#2|0 0 * * 1#5|0 0 * 2 0#1
0 0 * * 1#1,1#3|0 0 1 * 1#1|@yearly|@monthly|@weekly|@daily|@hourly|0 0 29 2 1|*/59 * * * *|1 1 1 1 *|23 0-20/2 * * *
0 22 * * 1-5|5 0 * 8 *|15 14 1 * *|0 4 8-14 * *|*/20 0 1-3 * *
""".replace("\n", "|")
ZONES = {
    # zone: instants shortly before clock changes
    "Europe/Berlin": ["2026-03-28T20:00:00", "2026-10-24T20:00:00"],
    "America/New_York": ["2026-03-08T00:00:00", "2026-10-31T20:00:00"],
    "Australia/Lord_Howe": ["2026-10-03T08:00:00", "2026-04-04T08:00:00"],
}
AT_CHANGES = [
    "30 2 * * *", "0 2 * * *", "15 2 * * 0", "59 1 * * *", "30 1 * * *", "0 3 * * *", "45 1 * * *", "0 0 * * *",
    "*/30 * * * *", "0 * * * *", "30 * * * *", "*/15 1-2 * * *", "0 1,2,3 * * *", "10,50 2 * * *", "15 */2 * * *",
    "45 1-3 * * *", "0 2 29 3 *", "30 2 25 10 *", "0,30 1 * * *", "5 2 * * SUN",
]
# More zones and expressions, without clock changes.
ABROAD = [
    ("Asia/Kolkata", "30 9 * * 1-5", "2026-03-10T10:07:00"),
    ("Asia/Kathmandu", "0 6 * * *", "2026-03-10T10:07:00"),
    ("America/Los_Angeles", "0 17 * * 5", "2026-03-10T10:07:00"),
    ("Pacific/Auckland", "0 0 1 * *", "2026-04-10T10:07:00"),
    ("Africa/Cairo", "0 0 * * 5", "2026-04-20T10:07:00"),
    ("America/Santiago", "0 0 * * *", "2026-09-03T10:07:00"),
    ("America/Santiago", "*/30 0 * * *", "2026-09-03T10:07:00"),
    ("Asia/Beirut", "0 0 * * 0", "2026-03-20T10:07:00"),
]


def cases():
    for expression in filter(None, PLAIN.split("|")):
        for start in STARTS if expression.count("*") < 4 else STARTS[:2]:
            yield "UTC", expression, start
    for zone, starts in ZONES.items():
        for start in starts:
            for expression in AT_CHANGES:
                yield zone, expression, start
    yield from ABROAD


def main():
    print("# Generated by conformance.py. Columns: zone, expression, after, next slots, agreeing implementations.")
    count = 0
    for name, expression, start in cases():
        zone = ZoneInfo(name)
        after = datetime.fromisoformat(start).replace(tzinfo=UTC)
        expected = Rule(expression).slots(zone, after)
        answers = {
            "cronsim": attempt(by_cronsim, NAMED.get(expression, expression), zone, after),
            "croniter": attempt(by_croniter, expression, zone, after),
        }
        agreeing = [who for who, answer in answers.items() if answer == expected]
        offsets = {slot.astimezone(zone).utcoffset() for slot in [after, *expected]}
        if not agreeing and len(offsets) == 1:
            sys.exit(f"{expression} in {name} after {start}: {expected} against {answers}")
        slots = " ".join(slot.strftime("%Y-%m-%dT%H:%MZ") for slot in expected)
        print(name, expression, start + "Z", slots, "+".join(agreeing) or "rule alone", sep="\t")
        count += 1
    print(f"{count} cases", file=sys.stderr)


if __name__ == "__main__":
    main()
