"""A good request, and one with changes: where the tests of the app begin."""

from __future__ import annotations

import copy

GOOD = {
    "name": "db",
    "namespace": "default",
    "replicas": 3,
    "workload": "StatefulSet",
    "disks": [{"name": "data", "size": "200Mi", "storage_class": "fast", "volume_mode": "Filesystem"}],
    "template": {
        "spec": {
            "containers": [{"name": "db", "image": "db:1", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]
        }
    },
}


def copied(document):
    """A copy of what JSON can say. The worlds copy at each read and write, and copy.deepcopy, which has to ask who else
    holds each value, takes several times as long."""
    if isinstance(document, dict):
        return {key: copied(value) for key, value in document.items()}
    return [copied(value) for value in document] if isinstance(document, list) else document


def changed(**values):
    return {**copy.deepcopy(GOOD), "devices": None, **values}
