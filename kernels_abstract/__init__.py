"""Kernels as programs: the kernel language, its library, and the PTX front end."""

from .builder import KernelBuilder
from .library import Description, describe, load, names

__all__ = ["Description", "KernelBuilder", "describe", "load", "names"]
