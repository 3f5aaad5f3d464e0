"""A package from outside, as pip leaves it: for daemons that find what it brings by its entry point."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def installed(folder: Path, group: str, entry_point: str) -> dict[str, str]:
    """The environment in which a package with that entry point is found, and the examples of the documentation."""
    package = folder / "site" / "outside-1.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[{group}]\n{entry_point}\n")
    return {"PYTHONPATH": ":".join(str(one) for one in (ROOT, ROOT / "docs" / "examples", folder / "site"))}
