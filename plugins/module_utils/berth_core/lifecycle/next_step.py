# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From what there is of a berth to what it needs next: one write at a time, so that any of them may be the last.

The only place that decides it, for replicas of apps and for claims, forward, back, and while a disk is exchanged. Which
steps are due stands in situations.py, what each writes in states.py; how each is made stands here, at the end. Drivers
(berth_kube.lifecycle, _glue.app.driver) carry the answer out, put what the API server said into the view, and ask
again. Never reads, never writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable, TypeVar

from . import back, forward, lost, replacing, replacing_claim, situations, states, way_out
from .step import DONE, Step, Wait
from .view import View

_T = TypeVar("_T")


def next_step(view: View) -> Step:
    """What has to be done next for this berth."""
    phase = situations.phase_of(view)
    if phase not in (states.ABSENT, *states.RECORDED):
        text = f"its Berth is in phase {phase}, which this release does not know: a newer one has to carry it on"
        return Wait("UnknownPhase", text, True)
    for name in situations.DUE[phase, situations.situation_of(view)]:
        step = STEPS[name](view)
        if step is not None:
            return step
    raise AssertionError(f"berth {view.key}, {phase} ({situations.situation_of(view)}), has no next step")


def _there(thing: _T | None) -> _T:
    """What is in the view in every situation whose rows name the step."""
    if thing is None:
        raise AssertionError("a step of another situation is asked for")
    return thing


def _release(view: View) -> Step:
    why = "what it was made for is gone" if view.owner is None else "its Berth is asked to go"
    return back.release(view, _there(view.berth), why)


def _keep(view: View) -> Step:
    """Somebody deleted the Berth while what it is for is there."""
    text = f"its Berth is asked to go while {_there(view.owner).kept(_there(view.berth))}"
    return Wait("BerthDeleted", text, True)


def _of_claim(view: View) -> tuple[replacing.Exchange, replacing.OfClaim]:
    exchange = _there(view.exchange)
    return exchange, _there(exchange.of)


def _adopt(view: View) -> Step | None:
    exchange = _there(view.exchange)
    if exchange.of is not None:
        return replacing_claim.adopt(view, exchange, exchange.of)
    return replacing.adopt(view, exchange, None)


def _forget(view: View) -> Step:
    record = _there(view.berth)
    step = back.forget(lost.leaving(view, record), record)
    of = view.exchange.of if view.exchange is not None else None
    return step if of is None else replacing_claim.end_named(view, of, step)


def _heir(view: View) -> Step:
    """The claim that was made anew is a berth's owner as any other."""
    exchange, of = _of_claim(view)
    heir = replacing_claim.heir(view, exchange, of)
    if isinstance(heir, Wait):
        return heir
    return replacing_claim.old_goes(view, of) or replacing_claim.named(view, of, next_step(heir))


#: How each step of situations.py is made; None: nothing of it is due.
STEPS: Mapping[str, Callable[[View], Step | None]] = {
    "select": lambda view: _there(view.owner).begin(),
    "reserve": lambda view: forward.reserve(view, _there(view.berth), _there(view.owner)),
    "hold": lambda view: forward.hold(view, _there(view.berth), _there(view.owner)),
    "prebind": lambda view: forward.prebind(view, _there(view.berth), _there(view.owner)),
    "follow": lambda view: _there(view.owner).arrived(view, _there(view.berth)),
    "not reserved": lambda view: replacing.not_reserved(_there(view.berth), _there(view.exchange)),
    "same exchange": lambda view: replacing.other_exchange(_there(view.berth), _there(view.exchange)),
    "cordon": lambda view: replacing.cordon(view, _there(view.exchange)),
    "replace": lambda view: replacing.replace(view, _there(view.berth), _there(view.exchange)),
    "relock": lambda view: replacing.relock(view, _there(view.berth), _there(view.owner), _there(view.exchange)),
    "adopt": _adopt,
    "let be": lambda view: replacing.left_alone(_there(view.berth)),
    "let claim's be": lambda view: replacing.left_to_its_claim(_there(view.berth)),
    "fit": lambda view: replacing_claim.unfitting(view, *_of_claim(view)),
    "rename": lambda view: replacing_claim.rename(view, _there(view.berth), _there(view.exchange)),
    "take off": lambda view: replacing.take_off(view, _there(view.berth), _there(view.exchange)),
    "heir": _heir,
    "release": _release,
    "keep": _keep,
    "untie": lambda view: back.untie(view, _there(view.berth)),
    "forget": _forget,
    "cordon kept": lambda view: lost.cordon_kept(view, _there(view.loss)),
    "abandon": lambda view: lost.give_up(view, _there(view.berth), _there(view.loss)),
    "leave": lambda view: lost.give_up(view, _there(view.berth), _there(view.loss)),
    "finish exchange": lambda view: lost.exchanging(_there(view.berth), _there(view.loss)),
    "bury": lambda view: lost.stop(view, _there(view.berth), _there(view.loss)),
    "vacate": lambda view: lost.vacate(view, _there(view.berth)),
    "part": lambda view: way_out.begin(_there(view.berth)),
    "wait for class": lambda view: Wait("ClassGone", view.lost, True),
    "nothing": lambda _view: DONE,
}
