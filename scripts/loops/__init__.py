"""Loops whose cycles are measured on a GPU and estimated without one."""
