# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The go.mod of berth-kube for any version of Kubernetes. `build` calls this. Pure: text in, text out.

k8s.io/kubernetes requires its staging modules (k8s.io/api and so on) at v0.0.0 and replaces them by folders of its
own repository. As a dependency those replacements do not count, so berth-kube's go.mod repeats them with the versions
under which the same sources are published: Kubernetes v1.36.4 is k8s.io/api v0.36.4.

Run as a program, this writes the go.mod that is committed:  python -m berth_dev.gomod v1.36.4 UPSTREAM_GO_MOD > go.mod
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from .errors import BuildError

KWOK = "v0.8.0"
_VERSION = re.compile(r"^v1\.(\d+)\.(\d+)$")
_STAGING = re.compile(r"^\s*(k8s\.io/[a-z0-9-]+) => \./staging/", re.MULTILINE)
_REQUIRED = re.compile(r"^\s*(go\.etcd\.io/etcd/server/v3|github\.com/spf13/(?:cobra|pflag)) (\S+)", re.MULTILINE)
_GO = re.compile(r"^go (\S+)$", re.MULTILINE)


def staging_version(version: str) -> str:
    """`v1.36.4` -> `v0.36.4`. Raises BuildError for anything that is not a released version."""
    match = _VERSION.match(version)
    if match is None:
        raise BuildError(f"Kubernetes version {version!r}: expected a release like v1.36.4")
    return f"v0.{match[1]}.{match[2]}"


def go_mod(version: str, upstream: str, *, kwok: bool = True) -> str:
    """The go.mod for `version`, given the text of k8s.io/kubernetes' own at that version; with or without kwok."""
    published, modules = staging_version(version), sorted(set(_STAGING.findall(upstream)))
    go, required = _GO.search(upstream), sorted(set(_REQUIRED.findall(upstream)))
    if go is None or not modules or len(required) != 3:
        raise BuildError(f"go.mod of k8s.io/kubernetes {version}: has not the form that is known; cannot build it")
    requires = [("k8s.io/kubernetes", version), *required, *([("sigs.k8s.io/kwok", KWOK)] if kwok else [])]
    requires += [(module, published) for module in ("k8s.io/component-base", "k8s.io/kubectl")]
    return "\n".join(
        [
            "// Made by berth_dev/gomod.py: change that, not this.",
            "module berth.dev/dev/cluster/kube",
            "",
            f"go {go[1]}",
            "",
            "require (",
            *(f"\t{module} {at}" for module, at in sorted(requires)),
            ")",
            "",
            "replace (",
            *(f"\t{module} => {module} {published}" for module in modules),
            ")",
            "",
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(go_mod(sys.argv[1], Path(sys.argv[2]).read_text(encoding="utf-8")))
