#!/usr/bin/env python3
"""Writes tests/ACCEPTANCE.md from the doc lines of the tests.

A test names the checks it proves in its doc line (`/// S1-42: …`). This script gathers them, lists every check of the mesh
(S1) and of the node itself (DC) and the failure stories, and marks those that no test names as open with the step that is to
prove them. Run it after adding a test; the tidy test holds the table to tests that exist.

    tests/acceptance.py           write the table
    tests/acceptance.py --check   fail when the table is not what would be written
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests/ACCEPTANCE.md"

S1 = """01 01b 02 03 04 05 05b 06 06b 07 08 09 10 11 11b 12 13 14 15 16 17 18 18b 19 20 21 22 22b 23 24 25 26 27 28 28b 29 30 31
32 33 34 35 36 36b 37 37b 38 39 40 41 42 42b 42c 42d 42e 43 44 44b 45 46 47 48 49 50 51 52 52b 53 53b 54 55 55b 56 57 58 59
60 61 62 63 64 65 65b 66 67 68 68b 68c 69 70 71 72 73 73b 74 75 76 76b 77 77b 78 79 79b 80 81 82 82b 83 83b 84 85 86 86b 87
87b 88 88b 88c 89 90 91 92 C1 C2 C3 C4 C5 C6 C7 C8"""
DC = "01 01b 02 02b 03 04 05 06 06a 06b 07 08 09 10 11 12"
STORIES = "01 03 05 07 08 10 11 13 14 16 18 19 21 23 25 26 28 29 31 32 35 36 37 40"

# Which step of the plan proves a check that this one does not. What stands nowhere here belongs to the mesh of step 1.
LATER = {
    2: "S1-77 S1-77b DC-02 DC-02b DC-06b DC-07 DC-11 U21 U28",
    3: "S1-11b S1-15 S1-28b S1-88 S1-88c S1-91 S1-92 U03 U05 U10",
    4: """S1-02 S1-18b S1-36b S1-55 S1-55b S1-56 S1-57 S1-59 S1-61 S1-62 S1-63 S1-64 S1-68 S1-68b S1-C1 S1-C2 S1-C3 S1-C4 S1-C5
    S1-C6 S1-C7 S1-C8 U35""",
    5: "DC-06 DC-06a DC-08 U26",
    6: "U29 U31 U32",
    7: "U36 U37 U40",
    8: "S1-68c DC-09",
}
STEP = {check: step for step, checks in LATER.items() for check in checks.split()}

# A check that one step can prove only in part, with what is left.
PARTLY = {
    "S1-06b": "",
    "S1-16": "entries that go away while it runs: step 2",
    "S1-20": "an idle minute in CI, ten seconds at a desk",
    "S1-41": "the verified half: step 3",
    "S1-73": "no restart: step 2",
    "S1-76": "the keyring: step 2",
    "S1-86b": "MQTT 3.1.1: step 3",
    "DC-06": "env, and nothing by default; dirs and http: step 5",
}

NAME = re.compile(r"\b(S1-(?:C?\d+)[a-e]?|DC-\d+[a-b]?|U\d\d)\b")
RANGE = re.compile(r"\bS1-(\d+) to (?:S1-)?(\d+)\b")
FUNCTION = re.compile(r"^\s*(?:pub(?:\([a-z]+\))? )?(?:async )?fn (\w+)")


def checks():
    yield from (f"S1-{number}" for number in S1.split())
    yield from (f"DC-{number}" for number in DC.split())
    yield from (f"U{number}" for number in STORIES.split())


def named(doc):
    found = set(NAME.findall(doc))
    for first, last in RANGE.findall(doc):
        found.update(f"S1-{number:02}" for number in range(int(first), int(last) + 1))
    return found


def place(path, function):
    """crate::module::function, as a person would type it to run one test."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    crate, rest = parts[1], [part for part in parts[2:] if part not in ("src", "journeys", "lib", "main", "mod")]
    if rest and rest[-1] != "tests" and parts[0] == "host" and "tests" not in rest:
        rest.append("tests")
    return "::".join([crate, *rest, function])


def proofs():
    found = {}
    for folder in ("host", "tests"):
        for path in sorted((ROOT / folder).rglob("*.rs")):
            if "target" in path.parts:
                continue
            doc, is_test = [], False
            for line in path.read_text(encoding="utf-8").splitlines():
                text = line.strip()
                if text.startswith("///"):
                    doc.append(text[3:].strip())
                elif text.startswith("#["):
                    is_test |= "test" in text and "cfg" not in text
                else:
                    match = FUNCTION.match(line)
                    if match and is_test:
                        for check in named(" ".join(doc)):
                            found.setdefault(check, []).append(place(path, match.group(1)))
                    doc, is_test = [], False
    return found


def sort_key(test):
    # The black-box proof first: it is the one an outsider would believe.
    return (not test.startswith("house::"), test)


def table():
    found = proofs()
    lines = [
        "# Which test proves which check",
        "",
        "Parts C (the mesh) and F (the node itself) of the acceptance checks, and the failure stories. `house::` tests drive the",
        "real node over a real broker with clients that are not ours; the others stand beside the code they test. Run one with",
        "`cargo test -p CRATE NAME`. This page is written by `tests/acceptance.py` from the doc lines of the tests; a test holds it",
        "to tests that exist.",
        "",
        "| check | tests | state |",
        "|---|---|---|",
    ]
    for check in checks():
        tests = sorted(set(found.get(check, [])), key=sort_key)
        later = STEP.get(check)
        if tests:
            partly = PARTLY.get(check)
            if later and not partly:
                partly = f"the rest: step {later}"
            state = f"proved in part ({partly})" if partly else "proved"
        else:
            state = f"open, step {later or 1}"
        lines.append(f"| {check} | {' · '.join(f'`{test}`' for test in tests)} | {state} |")
    return "\n".join(lines) + "\n"


def main():
    text = table()
    if "--check" in sys.argv[1:]:
        if not TABLE.exists() or TABLE.read_text(encoding="utf-8") != text:
            sys.exit("tests/ACCEPTANCE.md is out of date: run tests/acceptance.py")
        return
    TABLE.write_text(text, encoding="utf-8")
    for line in text.splitlines():
        if "| open, step 1 |" in line:
            print("still open here:", line.split("|")[1].strip())


main()
