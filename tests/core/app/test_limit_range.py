"""LimitRange defaults as the LimitRanger has them; tests/apiserver/app/test_admission.py holds them against it."""

from __future__ import annotations

import pytest

from berth_core.app.limit_range import with_defaults


def limit_range(**limits):
    return {"spec": {"limits": [{"type": "Container", **limits}]}}


FULL = limit_range(default={"cpu": "1"}, defaultRequest={"cpu": "300m"})


@pytest.mark.parametrize(
    ("ranges", "given", "expected"),
    [
        ([], None, None),
        ([limit_range(max={"cpu": "1"})], None, None),
        ([{"spec": {"limits": [{"type": "Pod", "default": {"cpu": "1"}}]}}], None, None),
        ([FULL], None, {"limits": {"cpu": "1"}, "requests": {"cpu": "300m"}}),
        ([FULL], {"requests": {"cpu": "2"}}, {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        ([FULL], {"limits": {"cpu": "2"}}, {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}),
        (
            [FULL, limit_range(defaultRequest={"cpu": "9", "memory": "1Gi"})],
            None,
            {"limits": {"cpu": "1"}, "requests": {"cpu": "300m", "memory": "1Gi"}},
        ),
        (
            [FULL],
            {"claims": [{"name": "gpu"}]},
            {"claims": [{"name": "gpu"}], "limits": {"cpu": "1"}, "requests": {"cpu": "300m"}},
        ),
    ],
)
def test_what_is_left_out_is_filled_in(ranges, given, expected):
    container = {"name": "main", **({"resources": given} if given is not None else {})}
    pod = {"spec": {"containers": [container], "initContainers": [dict(container)]}}
    found = with_defaults(pod, ranges)
    assert [each.get("resources") for each in (*found["spec"]["containers"], *found["spec"]["initContainers"])] == [
        expected,
        expected,
    ]
    assert container.get("resources") == given, "the template itself stays as it is"
