"""Finding one fact in a long text, and copying at short range.

Held out: the questions in HELD_OUT_QUESTIONS. Facts are random, so no fact repeats by design.
"""

from . import filler, words
from .conversation import Conversation, assistant, by_effort, draw_mode, exchange, user

_FACTS = [
    ("The secret code for {x} is {v}.", "What is the secret code for {x}?"),
    ("The secret code of {x} is {v}.", "What is the secret code of {x}?"),
    ("The password for {x} is {v}.", "What is the password for {x}?"),
    ("The magic number of {x} is {v}.", "What is the magic number of {x}?"),
    ("Remember: the key of {x} is {v}.", "What is the key of {x}?"),
    ("The phone number of {x} is {v}.", "What is the phone number of {x}?"),
    ("{x} has the number {v}.", "Which number has {x}?"),
    ("The special word for {x} is {v}.", "What is the special word for {x}?"),
]
_LONE_FACTS = [  # facts about nobody: one in a text
    ("The secret code is {v}.", ("What is the secret code?", "Repeat the secret code.", "Tell me the secret code.")),
    ("The magic word is {v}.", ("What is the magic word?", "Repeat the magic word.")),
    ("The password is {v}.", ("What is the password?", "Which password is in the text?")),
    ("NEEDLE: {v}", ("What is the needle?", "Repeat the needle.", "Find the needle and repeat it.")),
    ("The needle is {v}.", ("What is the needle?", "Repeat the needle.")),
    ("The special number is {v}.", ("What is the special number?", "Which special number is in the text?")),
    ("My lucky number is {v}.", ("What is my lucky number?",)),
    ("The passkey is {v}. Remember it.", ("What is the passkey?", "What was the passkey?")),
]
_ASK = ["{q}", "{q}", "{q}", "Question: {q}", "Now answer: {q}", "Using the text: {q}", "{q} Answer with it only."]
HELD_OUT_QUESTIONS = ["Tell me: {q}", "According to the text above: {q}"]
_HEADS = ["", "", "Read this text.\n\n", "Here is a long text.\n\n", "Remember the facts in this text.\n\n", "Text:\n"]
MAX_NEEDLE_TOKENS = 3300


def _subject(rng) -> str:
    return rng.choice((
        lambda: rng.choice(words.CITIES), lambda: rng.choice(words.FIRST_NAMES),
        lambda: f"the {rng.choice(words.COLOURS)} {rng.choice(words.OBJECTS)}",
        lambda: f"the {rng.choice(words.ANIMALS)}", lambda: words.made_up_word(rng).capitalize(),
        lambda: f"room {rng.randint(1, 99)}", lambda: rng.choice(words.GREEK)))()


def _value(rng) -> str:
    draw = rng.random()
    if draw < 0.65:
        return str(rng.randint(1000, 9999) if rng.random() < 0.7 else rng.randint(10, 999999))
    if draw < 0.8:
        return f"{rng.choice(words.METALS + words.ANIMALS)}-{rng.randint(10, 99)}"
    if draw < 0.9:
        return rng.choice(words.FRUITS + words.OBJECTS + words.METALS)
    return words.made_up_word(rng)


def _length(rng) -> int:
    """Tokens of filler: half of the texts are short, the rest reach evenly to the end."""
    if rng.random() < 0.55:
        return int(20 * (50 ** rng.random()))
    return rng.randint(300, MAX_NEEDLE_TOKENS)


def needle(rng) -> Conversation:
    """Filler with one to six facts at any depth; some of them are asked for, one a turn."""
    mode = draw_mode(rng, 0.25)
    sentences = filler.filler(rng, _length(rng))
    statement, question = rng.choice(_FACTS)
    facts = {_subject(rng): _value(rng) for _ in range(rng.choice((1, 1, 2, 3, 4, 6)))}
    is_lines = sentences[0].endswith("\n")
    for subject, value in facts.items():
        line = statement.format(x=subject, v=value)
        sentences.insert(rng.randint(0, len(sentences)), line + "\n" if is_lines else line)
    text = rng.choice(_HEADS) + ("" if is_lines else " ").join(sentences)
    asked = rng.sample(list(facts), rng.randint(1, min(4, len(facts))))
    turns = [exchange(rng.choice(_ASK).format(q=question.format(x=subject)), facts[subject], mode,
                      _found(mode, subject, statement.format(x=subject, v=facts[subject]), facts[subject]))
             for subject in asked]
    if rng.random() < 0.15:  # the text comes in a turn of its own
        turns.insert(0, exchange(text, "OK.", mode, "I read the text."))
    else:
        turns[0][0]["content"] = text + rng.choice(("\n\n", "\n\n", "\n", " ")) + turns[0][0]["content"]
    return Conversation([message for turn in turns for message in turn], mode)


def lone_needle(rng) -> Conversation:
    """One fact without a subject; the question stands behind the text or before it."""
    mode = draw_mode(rng, 0.25)
    sentences = filler.filler(rng, _length(rng))
    statement, questions = rng.choice(_LONE_FACTS)
    value, question = _value(rng), rng.choice(questions)
    line = statement.format(v=value)
    is_lines = sentences[0].endswith("\n")
    sentences.insert(rng.randint(0, len(sentences)), line + "\n" if is_lines else line)
    text = ("" if is_lines else " ").join(sentences)
    if rng.random() < 0.25:
        prompt = f"{question}\n\n{text}"
    else:
        prompt = rng.choice(_HEADS) + text + rng.choice(("\n\n", "\n\n", "\n", " ")) + rng.choice(_ASK).format(q=question)
    return Conversation(exchange(prompt, value, mode, _found(mode, "the fact", line, value)), mode)


def _found(mode, subject, line, value) -> str:
    return by_effort(mode.effort, f"I look for {subject}.", "The text says: " + line, f"So the answer is {value}.")


def quote(rng) -> Conversation:
    """Quotes the sentences of a text that begin with given words: long-range copying of whole sentences."""
    mode = draw_mode(rng, 0.1)
    sentences = [sentence.strip() for sentence in filler.filler(rng, _length(rng))]
    starts: dict[str, list[str]] = {}
    for sentence in sentences:
        starts.setdefault(" ".join(sentence.split(" ")[:4]), []).append(sentence)
    unique = [start for start, found in starts.items() if len(found) == 1] or list(starts)[:1]
    text, turns = " ".join(sentences), []
    for start in rng.sample(unique, min(len(unique), rng.randint(1, 3))):
        question = rng.choice(('Which sentence begins with "{}"?', 'Quote the sentence that begins with "{}".',
                               'Find the sentence that starts with "{}".')).format(start)
        turns += exchange(question, starts[start][0], mode, f'I look for "{start}".')
    turns[0]["content"] = f"{text}\n\n{turns[0]['content']}"
    return Conversation(turns, mode)


def key_values(rng) -> Conversation:
    """A list of pairs, then one of the keys: recall among many like facts."""
    mode = draw_mode(rng, 0.15)
    count = rng.randint(2, 40)
    keys = {_subject(rng): _value(rng) for _ in range(count)}
    form = rng.choice(("{k}: {v}", "{k} = {v}", "{k} -> {v}", "The code for {k} is {v}."))
    text = "\n".join(form.format(k=k, v=v) for k, v in keys.items())
    subject = rng.choice(list(keys))
    question = rng.choice(("What is {}?", "What belongs to {}?", "Give me the value of {}.", "{}?",
                           "What is the code for {}?")).format(subject)
    thought = by_effort(mode.effort, f"I look for {subject}.", form.format(k=subject, v=keys[subject]), "That is the line.")
    return Conversation(exchange(f"{text}\n\n{question}", keys[subject], mode, thought), mode)


def copy(rng) -> Conversation:
    """Repeat something exactly: words, invented words, digits, symbols or a sentence."""
    mode = draw_mode(rng, 0.15)
    kind = rng.randrange(5)
    count = rng.randint(1, 12)
    if kind == 0:
        text = " ".join(rng.choices(words.COMMON + words.NOUNS + words.OBJECTS, k=count))
    elif kind == 1:
        text = " ".join(words.made_up_word(rng, rng.randint(1, 3)) for _ in range(count))
    elif kind == 2:
        text = " ".join(str(rng.randint(0, 10 ** rng.randint(1, 7))) for _ in range(count))
    elif kind == 3:
        text = " ".join(filler.filler(rng, rng.randint(8, 60))).strip()
    else:
        text = "".join(rng.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", k=rng.randint(3, 20)))
    question = rng.choice(("Repeat: {}", "Repeat this: {}", "Say {}", 'Repeat "{}".', "Repeat after me: {}", "Copy this text: {}",
                           "Say exactly: {}", "Echo: {}", "Write {} again.", "Repeat the following text exactly.\n\n{}")).format(text)
    return Conversation(exchange(question, text, mode, by_effort(mode.effort, "I repeat the text.",
                                                                 "The text must stay the same.", "I change nothing.")), mode)


def copy_twice(rng) -> Conversation:
    """Write a word several times: induction inside the answer."""
    mode = draw_mode(rng, 0.1)
    word = rng.choice(words.NOUNS + [words.made_up_word(rng)])
    count = rng.randint(2, 8)
    question = rng.choice((f'Write "{word}" {count} times.', f"Say {word} {count} times.", f"Repeat {word} {count} times."))
    thought = by_effort(mode.effort, f"I write it {count} times.", f"The word is {word}.", "I count while I write.")
    return Conversation(exchange(question, " ".join([word] * count), mode, thought), mode)


def remember_name(rng) -> Conversation:
    """A fact in an early turn, asked for after some other turns."""
    mode = draw_mode(rng, 0.25)
    name, city, colour = rng.choice(words.FIRST_NAMES), rng.choice(words.CITIES), rng.choice(words.COLOURS)
    fact, answer, question, value = rng.choice((
        (f"My name is {name}.", f"Nice to meet you, {name}!", "What is my name?", f"Your name is {name}."),
        (f"I live in {city}.", f"{city} is a nice place.", "Where do I live?", f"You live in {city}."),
        (f"My favourite colour is {colour}.", f"I like {colour} too.", "What is my favourite colour?",
         f"Your favourite colour is {colour}.")))
    messages = exchange(fact, answer, mode, "The user tells me something.")
    for _ in range(rng.randint(0, 3)):
        a, b = rng.randint(1, 20), rng.randint(1, 20)
        messages += exchange(f"What is {a}*{b}?", str(a * b), mode, f"{a}*{b} = {a * b}.")
    thought = by_effort(mode.effort, "The user said it before.", f"The user said: {fact}", "So I can answer.")
    return Conversation(messages + exchange(question, value, mode, thought), mode)
