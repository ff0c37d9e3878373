"""The types of OpenAI's client for chat completions."""

from demur.integrations.extras import missing_extra
from demur.integrations.model_client.chat_form import ChatTypes
from demur.integrations.model_client.chat_stream import ChunkTypes

try:
    from openai import AsyncStream, Stream
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    from openai.types.chat.chat_completion_chunk import Choice, ChoiceDelta
except ImportError as error:
    raise missing_extra("openai") from error

__all__ = ["CHAT_TYPES"]

CHAT_TYPES = ChatTypes(
    completion=ChatCompletion,
    chunk=ChatCompletionChunk,
    chunk_types=ChunkTypes(Choice, ChoiceDelta),
    stream_types=(Stream, AsyncStream),
)
