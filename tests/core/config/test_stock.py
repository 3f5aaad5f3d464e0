"""kube-scheduler's configuration with the extender: by version, over what stands there, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from berth_core.config.configuration import SchedulerConfiguration
from berth_core.config.stock import MANAGED, ExtenderAddress, with_extender
from berth_core.errors import InputError

PLAIN = ExtenderAddress("http://127.0.0.1:9811")
SECURE = ExtenderAddress("https://extender.example:9811", "/pki/ca.crt", "/pki/client.crt", "/pki/client.key")


def test_from_nothing_and_read_back():
    document = with_extender("v1.36.4", None, SECURE)
    (found,) = SchedulerConfiguration.parse(document).extenders
    assert (found.url_prefix, found.bind_verb, found.node_cache_capable) == (SECURE.url, "bind", True)
    assert (found.timeout, found.managed, found.ignorable) == (30.0, ((MANAGED, True),), False)
    assert dict(found.tls) == {"caFile": "/pki/ca.crt", "certFile": "/pki/client.crt", "keyFile": "/pki/client.key"}


def test_what_stands_there_is_kept_and_our_own_is_replaced():
    other = {"urlPrefix": "http://other", "filterVerb": "filter"}
    source = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "x"}],
        "extenders": [other, {"urlPrefix": PLAIN.url + "/", "bindVerb": "bind"}],
    }
    document = with_extender("1.29.0+k3s1", source, replace(PLAIN, managed="", ignorable=True))
    assert document["profiles"] == [{"schedulerName": "x"}]
    assert document["extenders"][0] == other
    assert [one["urlPrefix"] for one in document["extenders"]] == ["http://other", PLAIN.url]
    assert "managedResources" not in document["extenders"][1]
    assert len(source["extenders"]) == 2
    assert "bind" not in source["extenders"][0], "the caller's document is not touched"
    again = with_extender("1.29.0", document, replace(PLAIN, managed="", ignorable=True))
    assert again == document, "a second time changes nothing"


V1 = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@pytest.mark.parametrize(
    ("version", "source", "at", "words"),
    [
        ("v1.24.9", None, PLAIN, "from version 1.25 on"),
        ("latest", None, PLAIN, "from version 1.25 on"),
        ("v1.36.4", {**V1, "apiVersion": "kubescheduler.config.k8s.io/v1beta3"}, PLAIN, "v1beta3"),
        ("v1.36.4", {**V1, "extenders": {}}, replace(PLAIN, url="ftp://x"), "expected http://HOST:PORT"),
        ("v1.36.4", {**V1, "extenders": ["x"]}, PLAIN, "expected a list of objects"),
        ("v1.36.4", {**V1, "extenders": [{"urlPrefix": "http://o", "bindVerb": "b"}]}, PLAIN, "at most one"),
        ("v1.36.4", None, replace(SECURE, ca_file=""), "name the authority"),
        ("v1.36.4", None, replace(SECURE, key_file=""), "belong together"),
        ("v1.36.4", None, replace(PLAIN, managed="cpu"), "extended resource"),
    ],
)
def test_what_is_refused(version, source, at, words):
    with pytest.raises(InputError, match=words):
        with_extender(version, source, at)
