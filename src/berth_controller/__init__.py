"""Binds claims to locked disks, and finds what nobody holds any more."""
