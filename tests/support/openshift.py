"""OpenShift's own schema of SecurityContextConstraints, and what its admission makes of a pod by restricted-v2.

The schema is that of the Go module github.com/openshift/api. The admission itself is no module that can be had: the
rules here are those of its documentation, for the fields that berth's pods could set.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.berth.stateful.plugins.module_utils._glue.client import ApiClient
from ansible_collections.berth.stateful.plugins.module_utils.berth_core.model import resources as kinds
from berth_dev import build, toolchain

MODULE = "github.com/openshift/api@v0.0.0-20251015095338-264e80a2b6e7"
SUM = "h1:Ot2fbEEPmF3WlPQkyEW/bUCV38GMugH/UmZvxpWceNc="
FILE = "security/v1/zz_generated.crd-manifests/0000_03_config-operator_01_securitycontextconstraints.crd.yaml"
#: Which every authenticated user's pods get: https://docs.redhat.com, "Managing security context constraints".
RESTRICTED_V2: Mapping[str, Any] = {
    "apiVersion": "security.openshift.io/v1",
    "kind": "SecurityContextConstraints",
    "metadata": {"name": "restricted-v2"},
    "allowHostDirVolumePlugin": False,
    "allowHostIPC": False,
    "allowHostNetwork": False,
    "allowHostPID": False,
    "allowHostPorts": False,
    "allowPrivilegeEscalation": False,
    "allowPrivilegedContainer": False,
    "allowedCapabilities": ["NET_BIND_SERVICE"],
    "defaultAddCapabilities": None,
    "fsGroup": {"type": "MustRunAs"},
    "groups": ["system:authenticated"],
    "priority": None,
    "readOnlyRootFilesystem": False,
    "requiredDropCapabilities": ["ALL"],
    "runAsUser": {"type": "MustRunAsRange"},
    "seLinuxContext": {"type": "MustRunAs"},
    "seccompProfiles": ["runtime/default"],
    "supplementalGroups": {"type": "RunAsAny"},
    "users": [],
    "volumes": [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ],
}
#: openshift.io/sa.scc.uid-range and supplemental-groups of a namespace: from, how many.
RANGE = range(1000670000, 1000680000)


@contextmanager
def served(control_plane: Any, api: ApiClient) -> Iterator[None]:
    """The API server has the kind, and the constraints that every user may use."""
    definition = yaml.safe_load((_module() / FILE).read_text(encoding="utf-8"))
    name = definition["metadata"]["name"]
    api.create(kinds.CRD, definition)
    try:
        control_plane.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")
        yield
    finally:
        api.delete(kinds.CRD, name)


def _module() -> Path:
    """Its folder in Go's cache, downloaded once."""
    go = toolchain.find_go(build.cache_folder(), build.needed_go(), build.quiet)
    with tempfile.TemporaryDirectory() as folder:
        argv = [str(go), "mod", "download", "-json", MODULE]
        done = subprocess.run(
            argv, cwd=folder, env=toolchain.environment(), capture_output=True, text=True, timeout=300, check=False
        )
    said = json.loads(done.stdout or "{}")
    assert said.get("Sum") == SUM, f"{MODULE}: {said.get('Error') or said.get('Sum') or done.stderr}"
    return Path(said["Dir"])


def refusals(constraints: Mapping[str, Any], pod: Mapping[str, Any]) -> list[str]:
    """Why a pod with this spec is not admitted by these constraints; what it leaves out is filled in by them."""
    shared = pod.get("securityContext") or {}
    found = [
        f"{field} is not allowed"
        for field, right in (
            ("hostNetwork", "allowHostNetwork"),
            ("hostPID", "allowHostPID"),
            ("hostIPC", "allowHostIPC"),
        )
        if pod.get(field) and not constraints[right]
    ]
    found += _volumes(constraints, pod)
    if constraints["fsGroup"]["type"] == "MustRunAs" and shared.get("fsGroup", RANGE.start) not in RANGE:
        found.append(f"fsGroup {shared['fsGroup']} is not of the namespace")
    for container in [*pod["containers"], *(pod.get("initContainers") or ())]:
        own = container.get("securityContext") or {}
        problems = [*_privileges(constraints, own), *_identity(constraints, {**shared, **own})]
        problems += [
            "hostPort is not allowed"
            for port in container.get("ports") or ()
            if port.get("hostPort") and not constraints["allowHostPorts"]
        ]
        found += [f"{container['name']}: {problem}" for problem in problems]
    return found


def _volumes(constraints: Mapping[str, Any], pod: Mapping[str, Any]) -> list[str]:
    allowed = constraints["volumes"]
    used = [kind for volume in pod.get("volumes") or () for kind in volume if kind != "name"]
    return [f"a volume of type {kind} is not allowed" for kind in used if kind not in allowed and "*" not in allowed]


def _privileges(constraints: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    found = []
    if own.get("privileged") and not constraints["allowPrivilegedContainer"]:
        found.append("privileged is not allowed")
    if own.get("allowPrivilegeEscalation") and constraints.get("allowPrivilegeEscalation") is False:
        found.append("allowPrivilegeEscalation is not allowed")
    asked = own.get("capabilities") or {}
    allowed = {*(constraints["allowedCapabilities"] or ()), *(constraints["defaultAddCapabilities"] or ())}
    found += [f"capability {one} may not be added" for one in asked.get("add") or () if not {one, "*"} & allowed]
    dropped = asked.get("drop")
    if dropped is not None:
        must = constraints["requiredDropCapabilities"] or ()
        found += [f"capability {one} has to be dropped" for one in must if one not in dropped]
    return found


def _identity(constraints: Mapping[str, Any], merged: Mapping[str, Any]) -> list[str]:
    found = []
    user = merged.get("runAsUser")
    if constraints["runAsUser"]["type"] == "MustRunAsRange" and user is not None and user not in RANGE:
        found.append(f"runAsUser {user} is not of the namespace")
    if constraints["seLinuxContext"]["type"] == "MustRunAs" and merged.get("seLinuxOptions"):
        found.append("seLinuxOptions are not the namespace's")
    profiles = constraints.get("seccompProfiles")
    profile = (merged.get("seccompProfile") or {}).get("type")
    named = {"RuntimeDefault": "runtime/default", "Unconfined": "unconfined"}.get(str(profile), str(profile))
    if profile and named not in (profiles or ()) and "*" not in (profiles or ()):
        found.append(f"seccomp profile {profile} is not allowed")
    return found
