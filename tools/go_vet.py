"""Run Go's vet over every Go package of the tree. Called by `make lint`, in the project's environment.

The Go that builds the development cluster checks it too, so that none need be installed by hand. `go vet` itself reads
every package below the project's, all of Kubernetes among them, for what vet learns of their functions (which of them
print as Printf does): 2,900 packages for the three that link Kubernetes. So vet is given each of the project's packages
by itself, as `go vet` would do it: the compiler's export data come from Go's cache, where the build has left them, and
what vet learns is asked of the packages that the project's import, and of no others. A function that hands a format on,
from one module through another to a third, is unknown to vet then.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from berth_dev import build, toolchain

ROOT = Path(__file__).resolve().parent.parent
FIELDS = (
    "ImportPath,Export,Dir,GoFiles,OtherFiles,IgnoredGoFiles,IgnoredOtherFiles,"
    "TestGoFiles,XTestGoFiles,ImportMap,Standard,Module,Imports,DepOnly"
)

Package = dict[str, Any]
"""What `go list -json` says of one."""


def modules() -> list[Path]:
    """Folders with a go.mod among the files of a commit; one that only names what is built has no program."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "*go.mod"]
    folders = [ROOT / Path(name).parent for name in subprocess.check_output(command, text=True).split()]
    return sorted({folder for folder in folders if any(folder.rglob("*.go"))})


def needed(folders: list[Path]) -> tuple[int, ...]:
    """The highest version that a go.mod asks for."""
    texts = [(folder / "go.mod").read_text(encoding="utf-8") for folder in folders]
    versions = [match[1] for text in texts if (match := re.search(r"^go (\d+(?:\.\d+)+)", text, re.MULTILINE))]
    return max(tuple(int(part) for part in version.split(".")) for version in versions)


def objects(text: str) -> Iterator[Package]:
    """JSON objects that follow each other."""
    decoder, at = json.JSONDecoder(), 0
    while match := re.compile(r"\S").search(text, at):
        found, at = decoder.raw_decode(text, match.start())
        yield found


class Vet:
    """One module's run. `packages`: by path, those that a package imports before it; `scratch`: for vet's files."""

    def __init__(self, go: Path, environment: dict[str, str], scratch: Path, packages: dict[str, Package]) -> None:
        self._go, self._environment, self._scratch, self._packages = go, environment, scratch, packages
        self._facts: dict[str, str] = {}
        self._files = {path: one["Export"] for path, one in packages.items() if one.get("Export")}
        self._standard = {path: True for path, one in packages.items() if one.get("Standard")}

    def run(self, folder: Path) -> bool:
        """True when vet has nothing to say about any package of the project."""
        ours = [package for package in self._packages.values() if not package.get("DepOnly")]
        untold = [
            package["ImportPath"] for package in ours if package.get("TestGoFiles") or package.get("XTestGoFiles")
        ]
        if untold:
            raise SystemExit(f"{', '.join(untold)}: has tests in Go, which tools/go_vet.py does not read yet")
        wanted = {path for package in ours for path in [*package.get("Imports", ()), package["ImportPath"]]}
        said = [self._one(package, folder) for path, package in self._packages.items() if path in wanted - {"unsafe"}]
        return all(said)

    def _one(self, package: Package, folder: Path) -> bool:
        """Let vet read the package. False when it is the project's and vet complains."""
        ours = not package.get("DepOnly")
        facts, config = self._scratch / f"{len(self._facts)}.facts", self._scratch / "vet.cfg"
        config.write_text(json.dumps(self._config(package, facts)), encoding="utf-8")
        argv = [str(self._go), "tool", "vet", str(config)]
        done = subprocess.run(argv, cwd=folder, env=self._environment, stderr=subprocess.PIPE, text=True, check=False)
        if facts.exists():
            self._facts[package["ImportPath"]] = str(facts)
        if ours and done.returncode:
            print(done.stderr.replace(f"{folder}/", ""), end="", flush=True)
        return not (ours and done.returncode)

    def _config(self, package: Package, facts: Path) -> dict[str, Any]:
        """What `go vet` would tell its tool."""
        module, folder = package.get("Module") or {}, Path(package["Dir"])

        def files(*fields: str) -> list[str]:
            return [str(folder / name) for field in fields for name in package.get(field, ())]

        return {
            "ID": package["ImportPath"],
            "Compiler": "gc",
            "Dir": str(folder),
            "ImportPath": package["ImportPath"],
            "GoVersion": f"go{module['GoVersion']}" if "GoVersion" in module else "",
            "GoFiles": files("GoFiles"),
            "NonGoFiles": files("OtherFiles"),
            "IgnoredFiles": files("IgnoredGoFiles", "IgnoredOtherFiles"),
            "ModulePath": module.get("Path", ""),
            "ModuleVersion": module.get("Version", ""),
            "ImportMap": {path: path for path in package.get("Imports", ())} | package.get("ImportMap", {}),
            "PackageFile": self._files,
            "Standard": self._standard,
            "PackageVetx": self._facts,
            "VetxOnly": bool(package.get("DepOnly")),
            "VetxOutput": str(facts),
        }


def vet(go: Path, folder: Path, environment: dict[str, str]) -> bool:
    """One module. False when vet complains, or a package does not compile."""
    # -export compiles what the cache lacks; -deps names what a package imports before the package.
    argv = [str(go), "list", "-deps", "-export", f"-json={FIELDS}", "./..."]
    listed = subprocess.run(argv, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if listed.returncode:
        return False
    packages = {package["ImportPath"]: package for package in objects(listed.stdout)}
    with tempfile.TemporaryDirectory() as scratch:
        return Vet(go, environment, Path(scratch), packages).run(folder)


def main() -> int:
    folders = modules()
    cache = build.cache_folder()
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    go = toolchain.find_go(cache, needed(folders), lambda line: print(line, flush=True))
    environment = toolchain.environment()
    # As the build does it: every compiled package is found in Go's cache, and Kubernetes is not compiled again.
    environment["GOFLAGS"] += " -trimpath"
    failed = 0
    for folder in folders:
        print(f"go vet {folder.relative_to(ROOT)}", flush=True)
        failed += not vet(go, folder, environment)
    return failed


if __name__ == "__main__":
    sys.exit(main())
