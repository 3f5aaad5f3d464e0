"""The pages of the documentation, and every example in them with what it is. Nothing is left out: see `kind_of`.

Examples are fenced blocks with a language, and what plugins show as EXAMPLES. What kind a YAML block is, its content
says; a block that nobody can tell is an error, and each kind has a test (tests/tools/test_page_examples.py,
tests/apiserver/test_page_manifests.py, tests/daemons/tasks/test_page_programs.py).
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("roles/*/README.md")])
PLUGINS = sorted(path for path in ROOT.glob("plugins/*/*.py") if "\nEXAMPLES = " in path.read_text(encoding="utf-8"))
#: Languages of what is shown and not run: what a program printed, a diagram.
SHOWN = ("text", "mermaid")
#: Kinds that a test knows what to do with.
CHECKED = {
    *("playbook", "tasks", "module_defaults", "host_vars", "agent", "devices", "scheduler", "prometheus", "console"),
    *("manifest", "inventory", "toml", "execution_environment", "hosts"),
    "python",
}


class Example(NamedTuple):
    """``code_block``: Markdown's other, indented form, which has no language."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def id(self) -> str:
        """Where a person finds it."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def documents(self) -> list[Any]:
        """What is in the YAML. Raises yaml.YAMLError."""
        return list(yaml.safe_load_all(self.text))


def examples(page: Path) -> Iterator[Example]:
    """Every block of code of a page, in lists and quotes too."""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            language = token.info.strip() if token.type == "fence" else token.type
            yield Example(page, token.map[0] + 1, language, token.content)


def files(page: Path) -> dict[str, str]:
    """The files that a page shows: YAML whose first line is the file's name, as in ``# group_vars/berth_hosts.yml``."""
    shown = (example for example in examples(page) if example.language == "yaml")
    named = ((re.match(r"# (\S+\.yml)\n", example.text), example.text) for example in shown)
    return {match[1]: text for match, text in named if match}


def anchors(page: Path) -> set[str]:
    """What a link to a heading of the page ends in, as GitHub and the site make it of the heading."""
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    titles = (tokens[number + 1].content for number, token in enumerate(tokens) if token.type == "heading_open")
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def sections(page: Path) -> dict[str, list[Example]]:
    """The blocks of the page by the heading above them."""
    lines = page.read_text(encoding="utf-8").splitlines()
    fenced, headings = False, {}
    for number, line in enumerate(lines, start=1):
        fenced ^= line.startswith("```")
        if not fenced and re.match("#+ ", line):
            headings[number] = line.lstrip("# ")
    found: dict[str, list[Example]] = {}
    for block in examples(page):
        above = max(number for number in headings if number < block.line)
        found.setdefault(headings[above], []).append(block)
    return found


def shown_by(plugin: Path) -> Iterator[Example]:
    """Its EXAMPLES."""
    for node in ast.parse(plugin.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["EXAMPLES"]:
            yield Example(plugin, node.lineno, "yaml", ast.literal_eval(node.value))


@cache
def kind_of(example: Example) -> str:
    """The language, or what the YAML is. Raises ValueError where there is no telling, so no check either."""
    if example.language != "yaml":
        return example.language
    kinds = {_document_kind(document, example.text) for document in example.documents}
    if len(kinds) != 1 or None in kinds:
        raise ValueError(f"{example.id} is none of what is checked: {', '.join(sorted(map(str, kinds)))}")
    return str(kinds.pop())


@cache
def every() -> list[Example]:
    """Those of all pages and plugins. Read once: a run's pages stay as they are."""
    return [*chain.from_iterable(map(examples, PAGES)), *chain.from_iterable(map(shown_by, PLUGINS))]


def of_kind(kind: str) -> list[Example]:
    return [example for example in every() if example.language == "yaml" and kind_of(example) == kind]


def counted() -> Counter[str]:
    """How many there are of each kind; what is only shown is no example."""
    return Counter(kind_of(example) for example in every() if example.language not in SHOWN)


_IMPORT = "ansible.builtin.import_playbook"


def _document_kind(document: Any, text: str) -> str | None:
    if isinstance(document, list):
        return "playbook" if all({"hosts", _IMPORT} & play.keys() for play in document) else "tasks"
    found = [kind for kind, is_it in _MAPPINGS.items() if isinstance(document, dict) and is_it(document, text)]
    return found[0] if len(found) == 1 else None


#: What a mapping is. A file that Kubernetes does not know is named by its first line.
_MAPPINGS = {
    "scheduler": lambda value, _: value.get("kind") == "KubeSchedulerConfiguration",
    "manifest": lambda value, _: {"apiVersion", "kind", "metadata"} <= value.keys(),
    "inventory": lambda value, _: value.get("plugin") == "berth.stateful.cluster",
    "hosts": lambda value, _: value.keys() == {"berth_hosts"} and "hosts" in value["berth_hosts"],
    "module_defaults": lambda value, _: value.keys() == {"module_defaults"},
    "prometheus": lambda value, _: "scrape_configs" in value,
    "execution_environment": lambda value, _: {"version", "images", "dependencies"} <= value.keys(),
    "host_vars": lambda _, text: re.match("# (inventory/)?(host|group)_vars/", text) is not None,
    "agent": lambda _, text: text.startswith("# /etc/berth/agent.yaml"),
    "devices": lambda _, text: text.startswith("# /etc/berth/devices.d/"),
}


if __name__ == "__main__":
    found = counted()
    told = ", ".join(f"{count} {kind}" for kind, count in found.most_common())
    where = f"{len(PAGES)} pages and {len(PLUGINS)} plugins"
    print(f"documentation examples: {found.total()} in {where}, all with a check: {told}")
