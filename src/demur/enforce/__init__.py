"""Enforcement in an agent: check prompts, tool calls, results and answers, and refuse in words."""
