# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a pod template comes from: an option, or a YAML file of one or several documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...berth_core.errors import InputError

try:
    import yaml
except ImportError:  # the kubernetes library brings it; refused below with a word on what is missing
    yaml = None


def load_template(template: Mapping[str, Any] | None, src: str | None) -> Any:
    """The pod template (or a Pod, or a StatefulSet that has one) as a value; several documents as a List.

    Raises InputError.
    """
    if src is None:
        return template
    if yaml is None:
        raise InputError("src needs the Python package PyYAML; install it for the interpreter that runs this module")
    try:
        with open(src, encoding="utf-8") as stream:
            documents = [item for item in yaml.safe_load_all(stream) if item is not None]
    except OSError as exc:
        raise InputError(f"src {src} cannot be read: {exc.strerror}") from exc
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        raise InputError(f"src {src} is not YAML: {exc}") from exc
    if not documents or not all(isinstance(document, Mapping) for document in documents):
        raise InputError(
            f"src {src} has no mapping: expected a pod template, a Pod, or a StatefulSet with its Services and "
            "ConfigMaps"
        )
    return documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents}


def read_src(arguments: dict[str, Any]) -> dict[str, Any]:
    """On the controller: read ``src`` there, for whoever runs the module where that file is not."""
    src = arguments.get("src")
    if not isinstance(src, str) or arguments.get("template") is not None:
        return arguments
    others = {key: value for key, value in arguments.items() if key != "src"}
    return {**others, "template": load_template(None, src)}
