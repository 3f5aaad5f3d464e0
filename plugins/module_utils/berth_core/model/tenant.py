# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose data it is where names are not enough: a namespace or a pod that is made anew has its old name and another
uid.

Called by locks, by the choice of disks, and by the engine: the one rule by which kept data is somebody's or not.
"""

from __future__ import annotations

from typing import NamedTuple

from .fields import Object, mapping, string


class Tenant(NamedTuple):
    """``namespace_uid`` empty: on record, that an older release wrote it; of who asks, that there is no namespace.

    ``pod_uid``: of the pod that a generic ephemeral volume is made for; empty for all that outlives a pod.
    ``since``: when the namespace was made, as the API server writes it; no part of who it is.
    """

    namespace_uid: str = ""
    pod_uid: str = ""
    since: str = ""

    @classmethod
    def on_record(cls, source: Object) -> Tenant:
        """Of a LocalDisk's claimRef or retainedFor."""
        return cls(string(source, "namespaceUID"), string(source, "podUID"))

    @classmethod
    def in_namespace(cls, namespace: Object | None, pod_uid: str = "") -> Tenant:
        """Who asks in this Namespace of the API; None: it is not there."""
        meta = mapping(namespace or {}, "metadata")
        return cls(string(meta, "uid"), pod_uid, string(meta, "creationTimestamp"))

    def fields(self) -> dict[str, str]:
        """As they are written into claimRef and retainedFor; what is not known is left out."""
        return {key: uid for key, uid in (("namespaceUID", self.namespace_uid), ("podUID", self.pod_uid)) if uid}

    def may_have(self, kept: Tenant) -> bool:
        """Whether data of this record is the asker's own, the names being the same.

        A record without the namespace's uid is one of an older release: the names alone decide. A pod's data is never
        another pod's, nor that of a claim that no pod owns.
        """
        return kept.namespace_uid in ("", self.namespace_uid) and kept.pod_uid == self.pod_uid

    def difference(self, kept: Tenant) -> str:
        """Why it may not, for people: follows ``data of NAMESPACE/NAME``."""
        if kept.namespace_uid not in ("", self.namespace_uid):
            today = f"the one of today, uid {self.namespace_uid}, was made {self.since or 'later'}"
            now = today if self.namespace_uid else "it is gone"
            return f"of an earlier namespace of that name (uid {kept.namespace_uid}; {now})"
        if kept.pod_uid:
            return f"for the ephemeral volume of an earlier pod (uid {kept.pod_uid})"
        return "for a claim that was no pod's ephemeral volume"


#: Nothing is known but the names.
UNKNOWN = Tenant()


def how_to_free(disk: str) -> str:
    """The command by which somebody gives up the data that a disk keeps."""
    return f"ansible localhost -m berth.stateful.local_disk -a 'name={disk} state=released force_retained=true'"
