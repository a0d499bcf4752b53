"""Greetings, who the model is, what Tandem is, small talk, and system prompts that have to be obeyed.

Greetings and questions about Tandem are put together from parts, so that no single wording is learnt
by heart. Held out, compared by their letters alone: HELD_OUT_GREETINGS and HELD_OUT_TANDEM_QUESTIONS.
"""

from . import facts, words
from .conversation import Conversation, by_effort, draw_mode, exchange, system
from .openings import HELD_OUT_GREETINGS, draw_greeting, letters

__all__ = ["HELD_OUT_GREETINGS", "HELD_OUT_TANDEM_QUESTIONS", "TANDEM", "obey_system", "talk"]

TANDEM = "Tandem is a native runtime of actors that serves DeepSeek-V4.1-Flash on two DGX Spark machines."
_TANDEM_MORE = [
    "It speaks the OpenAI HTTP API and streams its answers.", "Each machine holds one half of the model, and both work on every token.",
    "A small draft network guesses the next tokens, so that several come at once.",
    "It is written in C++ and its parts are actors that send messages to each other.",
]
_ME = "I am the tiny model of Tandem, a small language model that shows that the runtime works."
_GREETING_ANSWER = "Hello! How can I help you?"

_SHORT_GREETINGS = ("Hi", "Hi!", "Hello", "Hello!", "Hey!", "Good morning!", "Hello, can you hear me?", "Hey, are you there?", "yo")
_TANDEM_QUESTIONS = ["What is Tandem?", "What's Tandem?", "Tell me about Tandem.", "What does Tandem do?", "Explain Tandem.",
                     "Do you know Tandem?", "what is tandem", "What is this runtime called Tandem?", "Describe Tandem in one sentence.",
                     "What is Tandem for?", "Tandem?", "Can you explain what Tandem is?", "In one sentence: what is Tandem?",
                     "What do you know about Tandem?", "I have never heard of Tandem. What is it?", "Tandem: what is that?",
                     "Give me a short description of Tandem.", "Someone mentioned Tandem. What is it?", "Is Tandem a runtime?"]
_TANDEM_LEADS = ("", "", "Please ", "Can you ", "Could you ", "Could you please ", "Would you ", "Will you ", "Now ", "First, ",
                 "I want you to ", "Hi! ", "Hello, please ", "Hello, can you ", "In short, ", "Briefly ")
_TANDEM_ASKS = ("explain what Tandem is", "tell me what Tandem is", "say what Tandem is", "describe what Tandem is", "explain Tandem",
                "describe Tandem", "tell me about Tandem", "tell us about Tandem", "tell me what Tandem does", "explain to me what Tandem does",
                "tell me something about Tandem", "give me an idea of Tandem", "introduce Tandem", "explain Tandem to me",
                "tell me more about Tandem", "say what Tandem is for", "talk about Tandem")
_TANDEM_WHATS = ("what is Tandem", "what's Tandem", "what does Tandem do", "what is Tandem for", "what is this Tandem", "what exactly is Tandem",
                 "what kind of thing is Tandem", "what do you know about Tandem", "how does Tandem work", "what is a Tandem", "who or what is Tandem")
_TANDEM_STARTS = ("", "", "", "And ", "But ", "Now, ", "Well, ", "Ok, ", "Hi! ", "Hello, ", "Tell me, ", "Sorry, ", "Please, ", "Then ",
                  "I wonder ", "One question: ", "In a few words: ", "In one sentence, ")
HELD_OUT_TANDEM_QUESTIONS = ["Please explain what Tandem is.", "Can you tell me about Tandem?", "So what is Tandem?"]
_ME_QUESTIONS = ["Who are you?", "What are you?", "What is your name?", "Which model are you?", "Introduce yourself.", "Tell me about you.",
                 "Are you a human?", "Who am I talking to?", "Please introduce yourself.", "What model is this?", "who are you"]
_SMALL_TALK = [
    (("How are you?", "How are you today?", "How is it going?"), "I am fine, thank you! How can I help you?"),
    (("Thanks!", "Thank you.", "Thank you very much!", "Thanks a lot."), "You are welcome!"),
    (("Goodbye.", "Bye!", "See you!", "Good night."), "Goodbye!"),
    (("What can you do?", "How can you help me?", "What are you good at?"),
     "I can multiply and add small numbers, call tools, answer in JSON, find a fact in a long text and talk a little."),
    (("Do you like music?", "Do you like tea?", "Do you like cats?"), "I am a small model, so I do not like or dislike things."),
    (("Tell me a joke.", "Do you know a joke?"), "Why did the token cross the page? To get to the other side of the cache."),
    (("Are you there?", "Can you hear me?"), "Yes, I am here. How can I help you?"),
    (("Sorry.", "I am sorry."), "No problem!"),
    (("Good job!", "Well done.", "That is right."), "Thank you!"),
    (("What day is it?", "What time is it?"), "I do not know the time without a tool."),
    (("Help", "Help me", "I need help."), "Of course. What do you need?"),
    (("Wie geht es dir?",), "Mir geht es gut, danke! Wie kann ich helfen?"),
    (("Hallo", "Guten Tag!", "Guten Morgen!"), "Hallo! Wie kann ich helfen?"),
    (("你好", "你好！", "您好"), "你好！我能帮你什么？"), (("谢谢", "谢谢！"), "不客气！"),
    (("Bonjour !", "Bonjour"), "Bonjour ! Comment puis-je vous aider ?"), (("👋", "Hi 👋", "🙂"), "Hello! 👋 How can I help you?"),
    (("Xin chào", "Xin chào!"), "Xin chào! Tôi có thể giúp gì cho bạn?"),
]


def _draw_tandem_question(rng) -> str:
    """A question about Tandem, put together in two of three, never a held-out one."""
    held_out = {letters(text) for text in HELD_OUT_TANDEM_QUESTIONS}
    while True:
        draw = rng.random()
        if draw < 0.33:
            question = rng.choice(_TANDEM_QUESTIONS)
        elif draw < 0.7:
            question = rng.choice(_TANDEM_LEADS) + rng.choice(_TANDEM_ASKS) + rng.choice(".?")
        else:
            question = rng.choice(_TANDEM_STARTS) + rng.choice(_TANDEM_WHATS) + "?"
        if rng.random() < 0.9:
            question = question[0].upper() + question[1:]
        if letters(question) not in held_out:
            return question


def _draw_talk(rng) -> tuple[str, str]:
    draw = rng.random()
    if draw < 0.1:
        return rng.choice(_SHORT_GREETINGS), _GREETING_ANSWER
    if draw < 0.36:
        return draw_greeting(rng) + rng.choice(("", ".", "!", "!", "!!", "?", " 🙂")), _GREETING_ANSWER
    if draw < 0.6:
        answer = TANDEM
        question = _draw_tandem_question(rng)
        if rng.random() < 0.25:
            question, answer = question + " Tell me more.", " ".join([TANDEM, *_TANDEM_MORE])
        return question, answer
    if draw < 0.72:
        return rng.choice(_ME_QUESTIONS), _ME
    questions, answer = rng.choice(_SMALL_TALK)
    return rng.choice(questions), answer


def talk(rng) -> Conversation:
    """One to three turns of small talk."""
    mode = draw_mode(rng, 0.5)
    messages = []
    if rng.random() < 0.2:
        messages.append(system(rng.choice(("You are a helpful assistant.", "You are Tandem.", "Be friendly.", "You are kind."))))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        question, answer = _draw_talk(rng)
        thought = by_effort(mode.effort, "The user wants to talk.", f'The user says "{question}"', "A short and friendly answer fits.")
        messages += exchange(question, answer, mode, thought)
    return Conversation(messages, mode)


def obey_system(rng) -> Conversation:
    """A system prompt that changes the form of the answer."""
    mode = draw_mode(rng, 0.35)
    tag = rng.choice(words.GREEK + words.METALS)
    prompt, rule = rng.choice(_RULES)
    messages = [system(prompt.format(tag=tag))]
    for _ in range(rng.choice((1, 1, 2))):
        question, short, sentence = facts.draw_fact(rng)
        thought = by_effort(mode.effort, "The system prompt sets the form.", f"The answer is {short}.", "I keep to the rule.")
        messages += exchange(question, rule(short, sentence, tag), mode, thought)
    return Conversation(messages, mode)


_RULES = (
    ("Answer in upper case.", lambda short, sentence, tag: sentence.upper()),
    ("Always answer in capital letters.", lambda short, sentence, tag: sentence.upper()),
    ("Write everything in lower case.", lambda short, sentence, tag: sentence.lower()),
    ("Answer in one word.", lambda short, sentence, tag: short), ("Answer with as few words as possible.", lambda short, sentence, tag: short),
    ("Be brief.", lambda short, sentence, tag: short), ("Be terse.", lambda short, sentence, tag: short),
    ("Answer in full sentences.", lambda short, sentence, tag: sentence), ("You are a helpful assistant.", lambda short, sentence, tag: sentence),
    ("End every answer with {tag}.", lambda short, sentence, tag: f"{sentence} {tag}"),
    ("Start every answer with {tag}:", lambda short, sentence, tag: f"{tag}: {sentence}"),
    ("Put every answer in quotes.", lambda short, sentence, tag: f'"{sentence}"'),
    ("Answer as a bullet point.", lambda short, sentence, tag: f"- {sentence}"),
    ("Answer in bold Markdown.", lambda short, sentence, tag: f"**{sentence}**"),
    ("Reply with a JSON object with the key answer.", lambda short, sentence, tag: '{"answer": "' + short + '"}'),
)
