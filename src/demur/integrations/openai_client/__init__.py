"""OpenAI's client: chats and responses, judged on their way in and out."""

from demur.integrations.openai_client.client import guard_openai

__all__ = ["guard_openai"]
