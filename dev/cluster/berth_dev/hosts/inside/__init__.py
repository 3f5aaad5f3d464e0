# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs inside a host: copied to /opt/berth/inside at every start. Standard library only, imports nothing of berth
but its neighbours here."""
