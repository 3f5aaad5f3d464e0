# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the ConfigMaps and Secrets whose content counts as a revision. Never writes, and tells nobody what they hold.

Called by the flow (stateful_app); what counts is said in berth_core.app.contents.
"""

from __future__ import annotations

from ...berth_core.app.contents import asked_for, own_content, with_contents
from ...berth_core.app.wanted import AppWanted
from ..base import Context


def counted(context: Context, app: AppWanted) -> AppWanted:
    """The app whose template says what they hold. Raises StateError for one that is missing, ForbiddenError."""
    client, named = context.client, asked_for(app, context.params["update_on"])
    read = {one: own_content(app, one) or client.find(one.resource, one.name, app.namespace) for one in named}
    return with_contents(app, read)
