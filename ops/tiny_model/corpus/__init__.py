"""Training text of the tiny model: tokenizer, prompt encoder, task generators, the stream.

    tokenizer = load_tokenizer("configs/tiny/tokenizer.json")
    for ids, mask in stream(seed=1, tokenizer=tokenizer, max_len=4096): ...
"""

from .chat import ChatOptions, Segment, encode_chat, prompt_text, segment_ids
from .conversation import Conversation, Mode
from .evaluation import KINDS, EvalItem, Reply, eval_items, reply_of_ids
from .mixture import LONG_WEIGHTS, WEIGHTS, conversations, stream, task_name
from .tokenizer import Tokenizer, load_tokenizer

__all__ = ["ChatOptions", "Conversation", "EvalItem", "KINDS", "LONG_WEIGHTS", "Mode", "Reply", "Segment", "Tokenizer", "WEIGHTS",
           "conversations", "encode_chat", "eval_items", "load_tokenizer", "prompt_text", "reply_of_ids", "segment_ids",
           "stream", "task_name"]
