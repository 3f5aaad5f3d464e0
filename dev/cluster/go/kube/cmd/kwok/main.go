// Copyright (c) 2026, the berth authors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Command kwok is kwok alone, for a berth-kube that does not have it. Called as kwok-stages it prints the stages.
package main

import (
	"os"
	"path/filepath"

	"berth.dev/dev/cluster/kube/kwok"
)

func main() {
	if filepath.Base(os.Args[0]) == "kwok-stages" {
		os.Exit(kwok.PrintStages())
	}
	os.Exit(kwok.Run())
}
