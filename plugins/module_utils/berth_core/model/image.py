# Copyright (c) 2026, the berth authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which images a node has, and a pod needs. Called by the models of nodes and pods, for the plugin ImageLocality."""

from __future__ import annotations

from .fields import Object, integer, mapping, objects, string, strings

Images = tuple[tuple[str, int], ...]
"""Names of images with their size in bytes, sorted by name."""


def normalized_name(name: str) -> str:
    """Return an image's name with its tag: latest where there is none."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def node_images(status: Object, where: str) -> Images:
    """Read status.images of a node; every name of an image stands for itself."""
    found: dict[str, int] = {}
    for image in objects(status, "images", f"{where}: status.images"):
        size = integer(image, "sizeBytes", f"{where}: status.images: sizeBytes")
        found.update((name, size) for name in strings(image, "names", f"{where}: status.images: names"))
    return tuple(sorted(found.items()))


def pod_images(spec: Object, where: str) -> tuple[tuple[str, ...], int]:
    """Return the images of a pod's containers and image volumes, and the number of its containers."""
    containers = [
        *objects(spec, "initContainers", f"{where}.initContainers"),
        *objects(spec, "containers", f"{where}.containers"),
    ]
    names = [string(one, "image", f"{where}: container {one.get('name')}: image") for one in containers]
    volumes = objects(spec, "volumes", f"{where}.volumes")
    names += [string(mapping(one, "image"), "reference") for one in volumes if one.get("image") is not None]
    return tuple(sorted(normalized_name(name) for name in names)), len(containers)
