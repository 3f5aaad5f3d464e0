"""Files of items: each format gives the same items; what is wrong is told with file, line and what was expected."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from berth_core.errors import InputError
from berth_core.tasks import items_file
from berth_core.tasks.batch import check_new
from berth_core.tasks.items import LARGEST_ITEMS, MOST_ITEMS
from berth_core.tasks.items_file import read
from tests.core.tasks.samples import TEMPLATE

ITEMS: list[dict[str, Any]] = [
    {"name": "east", "args": ["--day", "a b"], "env": {"REGION": "\u2028 <1>"}},
    {"name": "west", "args": ["--day", "c"]},
    {"name": "sum", "needs": ["east", "west"]},
]
CSV = "name,args,needs,env.REGION\neast,--day 'a b',,\u2028 <1>\nwest,--day c,,\n\nsum,,east west,\n"
LINES = "\n".join(json.dumps(one, ensure_ascii=False) for one in ITEMS)
FILES = {
    "a.jsonl": LINES,
    "b.ndjson": f"\n{LINES}\r\n\n",
    "c.json": json.dumps(ITEMS),
    "d.json": json.dumps(ITEMS, indent=2),
    "e.yaml": yaml.safe_dump(ITEMS),
    "f.yml": f"# from {{}}\n---\n{json.dumps(ITEMS)}\n",
    "g.csv": CSV,
    "h.csv": CSV.replace("\n", "\r\n"),
    "vaulted-lines": LINES,
    "vaulted-list": json.dumps(ITEMS),
    "vaulted-yaml": yaml.safe_dump(ITEMS),
    "vaulted-table": CSV,
}


@pytest.mark.parametrize("file", FILES)
def test_each_format_gives_the_same_items(file: str) -> None:
    assert read(FILES[file], file, yaml) == ITEMS


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("a.jsonl", '{"name": "a"}\n{"name": }', "a.jsonl: line 2 is not JSON: Expecting value (column 10)"),
        ("a.jsonl", '{"name": "a"} {}', "a.jsonl: line 1 goes on after its object: expected one object a line"),
        ("a.jsonl", '\n"a"', "a.jsonl: line 2 is 'a': expected an object with name, args, env, needs"),
        ("a.jsonl", "[" * 100_000, "a.jsonl: line 1 is not"),
        ("a.jsonl", '{"arg": ["x"]}', "a.jsonl: line 1 has 'arg': expected name, args, env, needs"),
        ("a.jsonl", '{}\n{"args": [1]}', "a.jsonl: line 2: args must be a list of strings"),
        ("a.jsonl", '{}\n{"env": {"A": 1}}', "a.jsonl: line 2: env.A must be a string, got int '1'"),
        ("a.jsonl", '{"name": "a"}\n\n{"name": "a"}', "a.jsonl: line 3: name is 'a', as that of line 1"),
        ("a.jsonl", '{"needs": ["b"]}', "a.jsonl: line 1: needs names 'b': expected names of other items"),
        ("a.jsonl", '{"name": "a", "needs": ["a"]}', "a.jsonl wait for each other and never start: a -> a"),
        ("a.jsonl", json.dumps({"name": "x" * 64}), "line 1: name has 64 characters: expected 1 to 63"),
        ("a.jsonl", json.dumps({"args": ["x"] * 257}), "line 1: args has 257 entries: expected at most 256"),
        ("a.jsonl", json.dumps({"env": {"A": "x" * 4097}}), "line 1: env has a text of 4097 characters"),
        ("a.jsonl", "\n \n", "a.jsonl has no items: expected at least one"),
        ("a.json", "[]", "a.json has no items: expected at least one"),
        ("a.json", '[{"name": "a"},\n{"name": "b"}\n{"name": "c"}]', "a.json: line 3: expected , or ] after an item"),
        ("a.json", '[{"name": "a"},\n]', "a.json: line 2 is not JSON"),
        ("a.json", '[{"name": "a"}', "a.json: line 1: expected , or ] after an item"),
        ("a.json", "[{}] []", "a.json goes on after its list"),
        ("a.json", '{"name": "a"}', "a.json is not a JSON list: expected [ at its beginning"),
        ("a.json", '[{}, {\n"args": 1}]', "a.json: line 1: args must be a list of strings"),
        ("a.yaml", "- name: a\n- name: [\n", "a.yaml: line 3 is not YAML: "),
        ("a.yaml", "- name: a\n- args: [yes]\n", "a.yaml: line 2: args must be a list of strings"),
        ("a.yaml", "name: a\n", "a.yaml is not a YAML list: expected a list of objects"),
        ("a.yaml", "- name: a\n- !!python/object:os.system {}\n", "a.yaml: line 2 is not YAML: could not determine"),
        ("a.yaml", "- ? [a]\n  : b\n", "a.yaml: line 1"),
        ("a.csv", "", "a.csv has no items"),
        ("a.csv", "name\n", "a.csv has no items"),
        ("a.csv", "name,arg\na,b\n", "a.csv: line 1 is the header, and has 'arg': expected name, args, needs, and env"),
        ("a.csv", "name,name\na,b\n", "a.csv: line 1 is the header, and has 'name' twice"),
        ("a.csv", 'name,args\n"a\nb",c\nd\n', "a.csv: line 4 has 1 cells: expected 2, as the header"),
        ("a.csv", "name,args\na,it's\n", 'a.csv: line 2: args is "it\'s": No closing quotation'),
        ("a.csv", 'name\n"a"b\n', "a.csv: line 2 is not CSV: "),
        ("a.csv", "\x00", "a.csv: line 1"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(file: str, text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        read(text, file, yaml)
    assert words in refused.value.message
    assert refused.value.message.startswith(file)
    assert "\n" not in refused.value.message


def test_ten_thousand_items_of_each_format() -> None:
    items = [
        {"name": f"n{number}", "args": ["--part", str(number)], "needs": ["n0"]} for number in range(1, MOST_ITEMS)
    ]
    items.insert(0, {"name": "n0"})
    table = "".join(f"n{number},--part {number},n0\n" for number in range(1, MOST_ITEMS))
    lines = "\n".join(map(json.dumps, items))
    for file, text in (
        ("a.jsonl", lines),
        ("a.json", json.dumps(items, indent=1)),
        ("a.csv", f"name,args,needs\nn0,,\n{table}"),
        ("a.yaml", "\n".join(f"- {json.dumps(one)}" for one in items)),
    ):
        assert read(text, file, yaml) == items, file
    with pytest.raises(
        InputError, match=r"a\.jsonl has more than 10000 items: expected at most so many; submit several"
    ):
        read(f"{lines}\n{{}}", "a.jsonl", yaml)


def test_a_file_that_is_too_large_says_how_many_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"args": ["x" * 1000]}
    most = LARGEST_ITEMS // (len(json.dumps(one, separators=(",", ":"))) + 1)
    fits = [one] * most
    check_new("many", {"template": TEMPLATE, "items": fits})
    with pytest.raises(
        InputError, match=rf"into which the first {most} of {most + 2} items fit; submit several batches"
    ):
        read("\n".join(map(json.dumps, [*fits, one, one])), "a.jsonl", yaml)
    with pytest.raises(InputError, match=rf"TaskBatch many: spec\.items takes \d+ bytes .* the first {most} of"):
        check_new("many", {"template": TEMPLATE, "items": [*fits, one]})
    escaped = {"args": ["&" * 1000]}
    with pytest.raises(InputError, match=r"the first 17[0-9] of 1000 items fit"):
        check_new("many", {"template": TEMPLATE, "items": [escaped] * 1000})
    monkeypatch.setattr(items_file, "LARGEST_FILE", 10)
    with pytest.raises(InputError, match=r"a\.csv is too large: expected at most 10 characters"):
        read("name\n123456", "a.csv", yaml)
    with pytest.raises(InputError, match=r"a\.yaml needs the Python package PyYAML"):
        read("- {}", "a.yaml", None)
