# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m berth_dev` is the command berth-dev, without an installation. It only calls `cli`."""

import sys

from .cli import main

sys.exit(main())
