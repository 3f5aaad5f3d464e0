// Copyright (c) 2026, the berth authors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

package main

import "berth.dev/dev/cluster/kube/kwok"

// A file of its own: the build leaves it out for a Kubernetes whose packages kwok's release does not compile with.
func init() {
	programs["kwok"] = kwok.Run
	programs["kwok-stages"] = kwok.PrintStages
}
