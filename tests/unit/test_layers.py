"""Who may import whom among the thin shells: modules, action -> _glue, berth_host -> berth_core; never upward.

import-linter holds the layers inside the core; it cannot see the collection's own package names, so this does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
OURS = "ansible_collections.berth.stateful.plugins."
# What each room may name, beside the standard library and itself. "ansible" alone would allow the controller's parts.
REMOTE = {"ansible.module_utils"}
CONTROLLER = {"ansible"}
ALLOWED = {
    "module_utils/berth_core": set(),
    "module_utils/berth_host": {"module_utils/berth_core", *REMOTE},
    "module_utils/_glue": {"module_utils/berth_core", *REMOTE},
    "modules": {"module_utils", *REMOTE},
    "plugin_utils": {"module_utils", *CONTROLLER},
    "action": {"module_utils", "plugin_utils", *CONTROLLER},
    "filter": {"module_utils", "plugin_utils", *CONTROLLER},
    "lookup": {"module_utils", "plugin_utils", *CONTROLLER},
    "inventory": {"module_utils", "plugin_utils", *CONTROLLER},
    "doc_fragments": set(),
}


def room(path: Path) -> str:
    parts = path.relative_to(PLUGINS).parts
    return "/".join(parts[:2]) if parts[0] == "module_utils" else parts[0]


def imported(path: Path) -> Iterator[str]:
    """Paths inside plugins/ ("module_utils/_glue/base") and dotted names of what Ansible itself offers."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (
                alias.name for alias in node.names if alias.name.split(".")[0] in ("ansible", "ansible_collections")
            )
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = path.parents[node.level - 1].relative_to(PLUGINS).parts
            name = "/".join((*base, *(node.module or "").split(".")))
            # `from . import a` names its modules only there
            yield from (f"{name}/{alias.name}".strip("/") for alias in node.names) if not node.module else (name,)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in (
            "ansible",
            "ansible_collections",
        ):
            name = node.module or ""
            yield name.removeprefix(OURS).replace(".", "/") if name.startswith(OURS) else name


def allowed(name: str, own: str) -> bool:
    return any(name == base or name.startswith((base + "/", base + ".")) for base in (own, *ALLOWED[own]))


FILES = sorted(path for path in PLUGINS.rglob("*.py") if "__pycache__" not in path.parts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PLUGINS)))
def test_imports_point_downward(path: Path) -> None:
    own = room(path)
    assert own in ALLOWED, f"plugins/{own} is a new room: say in ALLOWED what it may import"
    refused = [name for name in imported(path) if not allowed(name, own)]
    assert not refused, f"{path.relative_to(PLUGINS)} may not import {refused}"


def test_a_wrong_import_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = tmp_path / "module_utils" / "_glue" / "wrong.py"
    wrong.parent.mkdir(parents=True)
    lines = (
        "from ..berth_core import errors",
        "from ...plugin_utils import x",
        "from ansible.errors import AnsibleError",
        "from ansible_collections.berth.stateful.plugins.module_utils._glue.base import Operation",
        "from ansible_collections.berth.stateful.plugins.modules.crds import main",
    )
    wrong.write_text("\n".join(lines))
    monkeypatch.setitem(globals(), "PLUGINS", tmp_path)
    names = list(imported(wrong))
    assert [allowed(name, "module_utils/_glue") for name in names] == [True, False, False, True, False]
