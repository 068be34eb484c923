"""Litmus tests from cycles of edges, and families of random ones; see docs/diy.md."""

from .generator import family, generate

__all__ = ["family", "generate"]
