"""The types of OpenAI's client for chat completions."""

from demur.integrations.extras import missing_extra
from demur.integrations.model_client.chat_form import ChatKinds
from demur.integrations.model_client.chat_stream import ChunkKinds

try:
    from openai import AsyncStream, Stream
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import Choice, ChoiceDelta
except ImportError as error:
    raise missing_extra("openai") from error

__all__ = ["CHAT"]

CHAT = ChatKinds(
    completion=ChatCompletion,
    chunk=ChatCompletionChunk,
    chunks=ChunkKinds(Choice, ChoiceDelta),
    streams=(Stream, AsyncStream),
)
