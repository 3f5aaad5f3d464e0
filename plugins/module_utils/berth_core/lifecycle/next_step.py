# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what there is of a berth to what it needs next: one write at a time, so that any of them may be the last.

The only place that decides it, for replicas of apps and for claims, forward, back, and while a disk is exchanged. Which
part of the life is next stands in states.py. Drivers (berth_kube.lifecycle, _glue.app.driver) carry the answer out, put
what the API server said into the view, and ask again. Never reads, never writes.
"""

from __future__ import annotations

from ..app import claims
from . import back, forward, lost, replacing, replacing_claim, states, way_out
from .owner import Owner
from .step import DONE, Step, Wait
from .view import Object, View, going, recorded


def next_step(view: View) -> Step:
    """What has to be done next for this berth."""
    record, owner = view.berth, view.owner
    if view.lost:
        return Wait("ClassGone", view.lost, True)
    if view.exchange is not None and view.exchange.of is not None:
        return _exchange_of_claim(view, view.exchange, view.exchange.of)
    if record is None:
        if view.exchange is not None:
            return replacing.without_berth(view, view.exchange)
        return _begin(view, owner)
    if view.leaves and not way_out.begun(record):
        return way_out.begin(record)
    if view.loss is not None and view.loss.takes(record):
        return _lost(view, record, view.loss)
    if recorded(record) == states.RELEASING:
        return back.forget(view, record)
    if owner is None:
        return _without_owner(view, record)
    if going(record):
        return _asked_to_go(view, record, owner)
    return _onward(view, record, owner)


def _begin(view: View, owner: Owner | None) -> Step:
    if owner is None:
        return DONE
    cordon = lost.cordon_kept(view, view.loss) if view.loss is not None else None
    return cordon or owner.begin()


def _lost(view: View, record: Object, loss: lost.Loss) -> Step:
    if recorded(record) != states.RELEASING:
        return lost.give_up(view, record, loss)
    return lost.stop(view, record, loss) or back.forget(view, record)


def _exchange_of_claim(view: View, exchange: replacing.Exchange, of: replacing.OfClaim) -> Step:
    step = replacing_claim.away(view, exchange, of)
    if step is not None:
        return step
    heir = replacing_claim.heir(view, exchange, of)
    if isinstance(heir, Wait):
        return heir
    return replacing_claim.old_goes(view, of) or replacing_claim.named(view, of, next_step(heir))


def _without_owner(view: View, record: Object) -> Step:
    """Given up; but a claim goes in the course of an exchange of its disk, and then its Berth is let be until it is
    asked to go itself."""
    exchanged = recorded(record) == states.REPLACING and claims.claim_of(record) is not None
    if exchanged and not going(record):
        return replacing.left_alone(record)
    return back.release(view, record, "what it was made for is gone")


def _onward(view: View, record: Object, owner: Owner) -> Step:
    if recorded(record) == states.REPLACING:
        return replacing.relock(view, record, owner)
    if view.exchange is not None and not view.exchange.done(record):
        return replacing.replace(view, record, view.exchange)
    if recorded(record) == states.SELECTED:
        return forward.reserve(view, record, owner)
    return forward.hold(view, record, owner) or forward.prebind(view, record, owner)


def _asked_to_go(view: View, record: Object, owner: Owner) -> Step:
    """Somebody deleted the Berth while what it is for is there."""
    if recorded(record) == states.SELECTED:
        return back.release(view, record, "its Berth is asked to go")
    return Wait("BerthDeleted", f"its Berth is asked to go while {owner.kept(record)}", True)
