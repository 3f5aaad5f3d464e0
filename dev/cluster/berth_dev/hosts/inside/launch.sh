#!/bin/sh
# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Starts a host: power.py runs this with the file of settings and the host's groups. It joins the groups first
# (namespaces do not change that later), then makes the namespaces. Killing it cuts the host's power: --kill-child.
set -eu
settings=$1
shift
for group; do echo $$ > "$group/cgroup.procs"; done
exec unshare --mount --uts --ipc --net --pid --cgroup --fork --kill-child sh "$(dirname "$0")/rootfs.sh" "$settings"
