"""The litmus language: from text to `model.axiomatic.code.Test`, and NVlabs' format as well."""

from .parser import parse

__all__ = ["parse"]
