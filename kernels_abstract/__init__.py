"""Kernels as programs: the kernel language, its library, and the PTX front end."""
