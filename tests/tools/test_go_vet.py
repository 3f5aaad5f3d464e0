"""tools/go_vet.py says what `go vet` says, on modules that are made here; Go itself runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from berth_dev import build, toolchain
from tools import go_vet

HELPER = """package helper

import "fmt"

type Logger struct{}

// Infof prints as Printf does, which only the facts about this package tell.
func (l *Logger) Infof(format string, values ...any) { fmt.Printf(format, values...) }
"""

MAIN = """package main

import (
    "context"
    "fmt"
    "os"
    "sync"

    "example.org/helper"
    "example.org/ours/inner"
)

func use(guard sync.Mutex) { guard.Lock() }

func work(ctx context.Context) {
    ctx, cancel := context.WithCancel(ctx)
    if ctx.Err() != nil {
        os.Exit(1) // no path from here: known from the facts about os
    }
    if len(os.Args) > 1 {
        return
    }
    defer cancel()
}

func main() {
    fmt.Printf("%d\\n", "text")
    log := helper.Logger{}
    log.Infof("%d", "text")
    inner.Say("%d", "text")
    use(sync.Mutex{})
    work(context.Background())
}
"""

INNER = """package inner

import "fmt"

func Say(format string, values ...any) { fmt.Printf(format, values...) }
"""

GOOD = """package main

import "example.org/helper"

func main() { (&helper.Logger{}).Infof("%d", 1) }
"""


@pytest.fixture(scope="module")
def go() -> Path:
    cache = build.cache_folder()
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    return toolchain.find_go(cache, build.needed_go(), print)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The module ``ours`` and one of somebody else's below it."""
    for name, text in {
        "helper/go.mod": "module example.org/helper\n\ngo 1.24\n",
        "helper/helper.go": HELPER,
        "ours/go.mod": "module example.org/ours\n\ngo 1.24\n\nrequire example.org/helper v0.0.0\n\n"
        "replace example.org/helper => ../helper\n",
        "ours/main.go": GOOD,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "ours"


def environment() -> dict[str, str]:
    made = toolchain.environment()
    return {**made, "GOFLAGS": f"{made['GOFLAGS']} -trimpath"}


def complaints(text: str) -> list[str]:
    """Lines about a place in a file, named from the module; `go vet` names it from wherever it thinks that it is."""
    return sorted(re.sub(r"^(\./|\S*/ours/)", "", line) for line in text.splitlines() if ".go:" in line)


def test_it_says_what_go_vet_says(go: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "main.go").write_text(MAIN)
    (folder / "inner").mkdir()
    (folder / "inner" / "inner.go").write_text(INNER)
    assert not go_vet.vet(go, folder, environment())
    said = complaints(capfd.readouterr().out)
    argv = [go, "vet", "./..."]
    whole = subprocess.run(argv, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert whole.returncode != 0
    assert said == complaints(whole.stderr)
    for words in ("fmt.Printf format", "Infof format", "Say format", "passes lock by value", "cancel function"):
        assert any(words in line for line in said), words


def test_nothing_to_say(go: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert go_vet.vet(go, folder, environment())
    assert capfd.readouterr() == ("", "")


def test_what_does_not_compile_is_a_failure(go: Path, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "main.go").write_text("package main\n\nfunc main() { unknown() }\n")
    assert not go_vet.vet(go, folder, environment())
    assert "undefined: unknown" in capfd.readouterr().err


def test_tests_in_go_would_not_be_passed_over(go: Path, folder: Path) -> None:
    (folder / "main_test.go").write_text("package main\n")
    with pytest.raises(SystemExit, match=r"example\.org/ours: has tests in Go"):
        go_vet.vet(go, folder, environment())
