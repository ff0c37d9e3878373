"""Anthropic's client: messages, judged on their way in and out."""

from demur.integrations.anthropic_client.client import guard_anthropic

__all__ = ["guard_anthropic"]
