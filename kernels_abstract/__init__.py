"""Kernels as programs: the kernel language, its library, and the PTX front end."""

from .library import Description, describe, load, names

__all__ = ["Description", "describe", "load", "names"]
