"""Readers of public suites in their own files: one module a suite."""
