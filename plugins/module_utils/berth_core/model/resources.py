# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds that modules and daemons read and write, and their places in the API: the one place where a path is made.

Known beforehand, so that nobody ever asks the API server what it serves (discovery costs dozens of requests).
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

_PLAIN = re.compile(r"[A-Za-z0-9._~-]*")


def _quoted(text: str) -> str:
    """Return a part of a path. Nearly all names of the API have nothing to quote."""
    return text if _PLAIN.fullmatch(text) else quote(text, safe="")


class Resource(NamedTuple):
    """One kind of the API. ``group`` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def definition(self) -> str:
        """The name of the CustomResourceDefinition, where the kind has one."""
        return f"{self.plural}.{self.group}"

    def path(self, name: str | None = None, namespace: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of one object, or of its subresource; every part is quoted."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        parts = [root]
        if self.namespaced and namespace:
            parts += ["namespaces", _quoted(namespace)]
        parts.append(self.plural)
        if name:
            parts.append(_quoted(name))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)

    def describe(self, name: str | None = None, namespace: str | None = None) -> str:
        """The object's name for people: ``LocalDisk h1-d0``, ``StatefulSet default/db``."""
        if not name:
            return self.plural if not namespace else f"{self.plural} in namespace {namespace}"
        return f"{self.kind} {namespace}/{name}" if self.namespaced and namespace else f"{self.kind} {name}"


LOCAL_DISK = Resource("berth.dev", "v1alpha1", "localdisks", "LocalDisk", False)
LOCAL_DEVICE = Resource("berth.dev", "v1alpha1", "localdevices", "LocalDevice", False)
BERTH = Resource("berth.dev", "v1alpha1", "berths", "Berth", True)
STATEFUL_APP = Resource("berth.dev", "v1alpha1", "statefulapps", "StatefulApp", True)
TASK = Resource("berth.dev", "v1alpha1", "tasks", "Task", True)
TASK_QUEUE = Resource("berth.dev", "v1alpha1", "taskqueues", "TaskQueue", True)
TASK_OFFER = Resource("berth.dev", "v1alpha1", "taskoffers", "TaskOffer", True)
TASK_BATCH = Resource("berth.dev", "v1alpha1", "taskbatches", "TaskBatch", True)
TASK_BATCH_SHARD = Resource("berth.dev", "v1alpha1", "taskbatchshards", "TaskBatchShard", True)
CRD = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)
NODE = Resource("", "v1", "nodes", "Node", False)
NAMESPACE = Resource("", "v1", "namespaces", "Namespace", False)
POD = Resource("", "v1", "pods", "Pod", True)
LIVING = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector for pods: those that have ended hold nothing any more, and a long-lived cluster has many of them."""
SERVICE = Resource("", "v1", "services", "Service", True)
PV = Resource("", "v1", "persistentvolumes", "PersistentVolume", False)
PVC = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
STORAGE_CLASS = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
STATEFUL_SET = Resource("apps", "v1", "statefulsets", "StatefulSet", True)
CONTROLLER_REVISION = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", True)
REPLICA_SET = Resource("apps", "v1", "replicasets", "ReplicaSet", True)
REPLICATION_CONTROLLER = Resource("", "v1", "replicationcontrollers", "ReplicationController", True)
DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment", True)
DAEMON_SET = Resource("apps", "v1", "daemonsets", "DaemonSet", True)
SECRET = Resource("", "v1", "secrets", "Secret", True)
CONFIG_MAP = Resource("", "v1", "configmaps", "ConfigMap", True)
SERVICE_ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount", True)
LIMIT_RANGE = Resource("", "v1", "limitranges", "LimitRange", True)
RESOURCE_QUOTA = Resource("", "v1", "resourcequotas", "ResourceQuota", True)
LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease", True)
EVENT = Resource("events.k8s.io", "v1", "events", "Event", True)
CSI_DRIVER = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False)
CSI_NODE = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False)
VOLUME_ATTACHMENT = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False)
CSI_STORAGE_CAPACITY = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", True)
DEVICE_CLASS = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)
RESOURCE_SLICE = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
RESOURCE_CLAIM = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True)
RESOURCE_CLAIM_TEMPLATE = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True)
PRIORITY_CLASS = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
POD_DISRUPTION_BUDGET = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
CLUSTER_ROLE = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
CLUSTER_ROLE_BINDING = Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False)
ROLE = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", True)
ROLE_BINDING = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True)
MUTATING_ADMISSION_POLICY = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy", False
)
VALIDATING_ADMISSION_POLICY = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False
)
VALIDATING_ADMISSION_POLICY_BINDING = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False
)
MUTATING_ADMISSION_POLICY_BINDING = Resource(
    "admissionregistration.k8s.io", "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", False
)
#: What a metrics-server tells of what is used.
NODE_METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False)
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", True)
#: OpenShift's own.
SECURITY_CONTEXT_CONSTRAINTS = Resource(
    "security.openshift.io", "v1", "securitycontextconstraints", "SecurityContextConstraints", False
)
#: (apiVersion, kind), as a manifest has them -> the kind.
BY_KIND = {(each.api_version, each.kind): each for each in list(vars().values()) if isinstance(each, Resource)}
