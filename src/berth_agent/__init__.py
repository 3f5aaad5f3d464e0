"""The node agent: turns what a node has into custom resources, and does to disks what a live lock allows."""
