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


def changed(**values):
    return {**copy.deepcopy(GOOD), "devices": None, **values}
