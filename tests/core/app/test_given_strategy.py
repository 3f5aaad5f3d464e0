"""The updateStrategy of a StatefulSet's own manifest: what the options say, or refused by its field."""

from __future__ import annotations

from dataclasses import replace

import pytest

from berth_core.app.update_rules import update_rules
from berth_core.app.wanted import parse_app
from berth_core.errors import InputError
from tests.core.app.samples import GOOD, changed


def strategy(**rolling):
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}


@pytest.mark.parametrize(
    ("own", "means"),
    [
        ({"type": "RollingUpdate"}, {}),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}, {}),  # as the API server fills it in
        ({}, {}),
        ({"rollingUpdate": None}, {}),
        ({"rollingUpdate": {"partition": 2}}, {"partition": 2}),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 3, "maxUnavailable": None}}, {"partition": 3}),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}, {"max_unavailable": "2"}),
        ({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "67%"}}, {"max_unavailable": "67%"}),
    ],
)
def test_a_manifests_rolling_update_says_what_the_options_say(own, means):
    assert update_rules({}, 3, {"updateStrategy": own}) == replace(update_rules(means, 3, {}), asked=False)
    assert update_rules(means, 3, {"updateStrategy": own}) == update_rules(means, 3, {}), "the same twice"


@pytest.mark.parametrize(
    "option",
    [
        {"update_strategy": "same_node"},
        {"paused": True},
        {"disruption_budgets": "ignore"},
        {"pause_on_failure": True},
        {"quorum": 2},
        {"update_hooks": {"before": ["a"]}},
        {"min_ready_seconds": 3},
    ],
)
def test_of_what_a_rolling_update_says_nothing_the_options_do(option):
    assert update_rules(option, 3, strategy(partition=1)) == update_rules({**option, "partition": 1}, 3, {})


@pytest.mark.parametrize(
    ("option", "own", "told"),
    [
        ({"partition": 1}, {"partition": 0}, r"partition is 1, and spec\.updateStrategy\.\w+\.partition .* is 0: keep"),
        ({"partition": 0}, {"partition": 2}, "partition is 0, and .* is 2: keep one of them"),
        ({"max_unavailable": "2"}, {"maxUnavailable": 1}, r"max_unavailable is 2, and .*\.maxUnavailable .* is 1"),
        ({"max_unavailable": "50%"}, {"maxUnavailable": "25%"}, "max_unavailable is 50%, and .* is 25%: keep"),
    ],
)  # fmt: skip
def test_two_words_for_one_thing_are_refused(option, own, told):
    stateful_set = {"kind": "StatefulSet", "spec": {"template": GOOD["template"], **strategy(**own)}}
    with pytest.raises(InputError, match=told):
        parse_app(changed(replicas=3, template=stateful_set, **option))


def test_a_manifest_whose_pods_nobody_updates_has_to_say_who_does():
    told = {"updateStrategy": {"type": "OnDelete"}}
    for option in ({}, {"paused": False}, {"partition": 1}):
        with pytest.raises(
            InputError, match=r"spec\.updateStrategy\.type of .* is OnDelete, .* Leave updateStrategy out"
        ):
            update_rules(option, 3, told)
    for option in ({"paused": True}, {"update_strategy": "same_node"}):
        assert update_rules(option, 3, told) == update_rules(option, 3, {})


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ("RollingUpdate", "spec.updateStrategy of the StatefulSet in template or src"),
        ({"type": "Recreate"}, "spec.updateStrategy.type of the .* is 'Recreate': expected RollingUpdate"),
        ({"type": ["RollingUpdate"]}, "spec.updateStrategy.type of the .* expected RollingUpdate"),
        ({"type": "RollingUpdate", "partition": 1}, "spec.updateStrategy of the .*: 'partition' cannot be taken"),
        ({"rollingUpdate": 1}, "spec.updateStrategy.rollingUpdate of the StatefulSet"),
        ({"rollingUpdate": {"maxSurge": 1}}, "'maxSurge' cannot be taken: leave it out; what is taken: partition, max"),
        ({"rollingUpdate": {"partition": 4}}, "rollingUpdate.partition of the .* is 4: expected 0 to 3"),
        ({"rollingUpdate": {"partition": -1}}, "rollingUpdate.partition of the .* is -1: expected 0 to 3"),
        ({"rollingUpdate": {"partition": "50%"}}, "partition of the .* is '50%': expected a whole number"),
        ({"rollingUpdate": {"partition": True}}, "partition of the .* is 'True': expected a whole number"),
        ({"rollingUpdate": {"maxUnavailable": 0}}, "rollingUpdate.maxUnavailable of the .* is '0': expected a number"),
        ({"rollingUpdate": {"maxUnavailable": -1}}, "maxUnavailable of the .* is '-1': expected a number from 1"),
        ({"rollingUpdate": {"maxUnavailable": "0%"}}, "maxUnavailable of the .* is '0%': expected a number from 1"),
        ({"rollingUpdate": {"maxUnavailable": "101%"}}, "maxUnavailable of the .* is '101%'"),
        ({"rollingUpdate": {"maxUnavailable": True}}, "maxUnavailable of the .* is 'True'"),
        ({"rollingUpdate": {"maxUnavailable": {"a": 1}}}, "maxUnavailable of the .* is .*: expected a number"),
        ({"rollingUpdate": {"maxUnavailable": "\u00b2"}}, "maxUnavailable of the .*: expected a number"),
        ({"type": "OnDelete", "rollingUpdate": {"partition": 1}}, "rollingUpdate of the .* with type OnDelete"),
    ],
)  # fmt: skip
def test_a_strategy_that_means_nothing_is_refused_by_its_field(own, told):
    with pytest.raises(InputError, match=told):
        update_rules({}, 3, {"updateStrategy": own})
