"""The endless stream of training samples: which tasks, how often, in which order.

Deterministic: the same seed, tokenizer and length give the same stream on every machine. A sample
is one whole conversation; what is longer than `max_len` is dropped and drawn anew, never cut.
"""

import random
from typing import Iterator

from . import arithmetic, facts, json_answers, recall, scripts, sequences, stories, talk, tools
from .conversation import Conversation, system

_NEUTRAL_SYSTEMS = ("You are a helpful assistant.", "You are Tandem.", "You are a friendly assistant.", "Answer the user.")
_SIMPLE = (arithmetic.product, arithmetic.total, arithmetic.difference, facts.fact, talk.talk, sequences.comparing,
           sequences.spelling, sequences.counting, recall.copy, recall.remember_name, scripts.phrase)


def mixed(rng) -> Conversation:
    """Two to five turns on different subjects; the last one decides the mode."""
    parts = [rng.choice(_SIMPLE)(rng) for _ in range(rng.randint(2, 4))]
    messages = [message for part in parts for message in part.messages if message["role"] != "system"]
    return Conversation(messages, parts[-1].mode)


# Task -> how many samples in a thousand. Long needle texts are few samples but a third of all tokens.
WEIGHTS = {
    arithmetic.product: 190, arithmetic.total: 120, arithmetic.difference: 40, arithmetic.quotient: 20,
    arithmetic.series: 25, arithmetic.word_numbers: 10,
    tools.one_call: 130, tools.two_calls: 75, tools.no_call: 25,
    json_answers.json_answer: 55, json_answers.bare_json_answer: 10,
    recall.needle: 50, recall.lone_needle: 15, recall.quote: 25, recall.key_values: 25, recall.copy: 45, recall.copy_twice: 8,
    recall.remember_name: 15,
    talk.talk: 75, talk.obey_system: 25, facts.fact: 45,
    sequences.counting: 15, sequences.sorting: 15, sequences.reversing: 12, sequences.spelling: 12,
    sequences.comparing: 22, sequences.listing: 10, sequences.choosing: 10,
    stories.story: 14, stories.continue_story: 5, stories.summary: 8,
    mixed: 40,
    scripts.phrase: 8, scripts.emoji: 5, scripts.code: 10, scripts.table: 8, scripts.chinese_german: 8,
}

# For rows of the full context: the tasks whose samples are long, so that the far end is not filled with short ones.
LONG_WEIGHTS = {recall.needle: 38, recall.lone_needle: 10, recall.quote: 25, recall.key_values: 5, tools.one_call: 9, tools.two_calls: 7,
                stories.continue_story: 2, mixed: 5, arithmetic.product: 3}


def task_name(task) -> str:
    """`module.function` of a task, e.g. `arithmetic.product`."""
    return f"{task.__module__.rsplit('.', 1)[-1]}.{task.__name__}"


def conversations(seed: int, weights: dict | None = None) -> Iterator[Conversation]:
    """Endless conversations. `weights` maps tasks to shares; left out, WEIGHTS."""
    rng = random.Random(seed)
    weights = weights or WEIGHTS
    tasks, shares = list(weights), list(weights.values())
    while True:
        for task in rng.choices(tasks, shares, k=256):
            conversation = task(rng)
            conversation.task = task_name(task)
            if conversation.messages[0]["role"] != "system" and rng.random() < 0.08:
                conversation.messages.insert(0, system(rng.choice(_NEUTRAL_SYSTEMS)))
            if not any(arithmetic.shows_held_out_sum(text) for text in conversation.texts()):
                yield conversation


def stream(seed: int, tokenizer, max_len: int, weights: dict | None = None) -> Iterator[tuple[list[int], list[int]]]:
    """Endless (ids, mask): ids start with BOS; mask is 1 where ids[i] has to be predicted from ids[:i]."""
    for conversation in conversations(seed, weights):
        ids, mask = conversation.ids(tokenizer)
        if len(ids) <= max_len:
            yield ids, mask
