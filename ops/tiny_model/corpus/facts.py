"""Simple facts: capitals, opposites, plurals, days, translations and the like, as question-answer tables."""

from . import words
from .conversation import Conversation, by_effort, draw_mode, exchange

CAPITALS = dict(pair.split(":") for pair in """
France:Paris Germany:Berlin Italy:Rome Spain:Madrid Portugal:Lisbon Austria:Vienna Norway:Oslo Sweden:Stockholm
Finland:Helsinki Denmark:Copenhagen Poland:Warsaw Hungary:Budapest Greece:Athens Ireland:Dublin Belgium:Brussels
Switzerland:Bern Japan:Tokyo China:Beijing Vietnam:Hanoi Thailand:Bangkok India:Delhi Egypt:Cairo Kenya:Nairobi
Ghana:Accra Peru:Lima Cuba:Havana Chile:Santiago Canada:Ottawa Russia:Moscow Ukraine:Kyiv Turkey:Ankara Iran:Tehran
Iraq:Baghdad Nepal:Kathmandu England:London Scotland:Edinburgh Croatia:Zagreb Serbia:Belgrade Latvia:Riga Estonia:Tallinn
Lithuania:Vilnius Iceland:Reykjavik Tunisia:Tunis Jordan:Amman Qatar:Doha Australia:Canberra Brazil:Brasilia
Colombia:Bogota Ecuador:Quito Venezuela:Caracas Slovakia:Bratislava Slovenia:Ljubljana Bulgaria:Sofia
""".split())
OPPOSITES = dict(pair.split(":") for pair in """
hot:cold big:small tall:short old:new light:dark up:down left:right fast:slow happy:sad good:bad open:closed full:empty
hard:soft wet:dry loud:quiet strong:weak rich:poor early:late long:short wide:narrow deep:shallow clean:dirty high:low
day:night yes:no black:white warm:cool heavy:light thick:thin near:far first:last true:false on:off in:out
""".split())
PLURALS = dict(pair.split(":") for pair in """
cat:cats dog:dogs child:children mouse:mice foot:feet tooth:teeth man:men woman:women goose:geese sheep:sheep fish:fish
box:boxes city:cities leaf:leaves knife:knives wolf:wolves baby:babies book:books house:houses bus:buses key:keys
story:stories potato:potatoes person:people
""".split())
PASTS = dict(pair.split(":") for pair in """
go:went see:saw eat:ate run:ran sing:sang write:wrote take:took give:gave find:found buy:bought think:thought come:came
walk:walked play:played make:made know:knew read:read keep:kept break:broke swim:swam
""".split())
GERMAN = dict(pair.split(":") for pair in """
red:rot blue:blau green:grün yellow:gelb black:schwarz white:weiß house:Haus tree:Baum water:Wasser bread:Brot cat:Katze
dog:Hund day:Tag night:Nacht sun:Sonne moon:Mond book:Buch friend:Freund one:eins two:zwei three:drei four:vier five:fünf
""".split())
CHINESE = {"one": "一", "two": "二", "three": "三", "four": "四", "five": "五", "water": "水", "fire": "火", "person": "人",
           "cat": "猫", "dog": "狗", "sun": "太阳", "moon": "月亮", "hello": "你好", "thank you": "谢谢", "red": "红色"}
SOUNDS = {"cat": "meow", "dog": "woof", "cow": "moo", "sheep": "baa", "duck": "quack", "pig": "oink", "owl": "hoot",
          "frog": "ribbit", "bee": "buzz", "horse": "neigh", "hen": "cluck", "wolf": "howl"}
COLOURS_OF = {"the sky": "blue", "grass": "green", "snow": "white", "blood": "red", "the sun": "yellow", "coal": "black",
              "a lemon": "yellow", "a carrot": "orange", "milk": "white", "a banana": "yellow", "a leaf": "green"}
LEGS = {"a dog": 4, "a cat": 4, "a spider": 8, "an ant": 6, "a bird": 2, "a human": 2, "a horse": 4, "a bee": 6, "a snake": 0,
        "an octopus": 8}
GENERAL = [
    ("How many days are in a week?", "7", "A week has seven days."), ("How many months are in a year?", "12", "A year has twelve months."),
    ("How many hours are in a day?", "24", "A day has twenty-four hours."), ("How many minutes are in an hour?", "60", "An hour has sixty minutes."),
    ("How many seconds are in a minute?", "60", "A minute has sixty seconds."), ("At what temperature does water freeze?", "0 degrees", "Water freezes at 0 degrees Celsius."),
    ("At what temperature does water boil?", "100 degrees", "Water boils at 100 degrees Celsius."), ("Which planet do we live on?", "Earth", "We live on Earth."),
    ("What is the largest planet?", "Jupiter", "Jupiter is the largest planet."), ("What do bees make?", "honey", "Bees make honey."),
    ("What is frozen water called?", "ice", "Frozen water is called ice."), ("How many letters are in the English alphabet?", "26", "The English alphabet has 26 letters."),
    ("What is the opposite of north?", "south", "The opposite of north is south."), ("Which animal says meow?", "a cat", "A cat says meow."),
    ("What is the longest river in Africa?", "the Nile", "The longest river in Africa is the Nile."), ("What is the highest mountain?", "Mount Everest", "The highest mountain is Mount Everest."),
    ("How many sides does a triangle have?", "3", "A triangle has three sides."), ("How many sides does a square have?", "4", "A square has four sides."),
    ("What is a dozen?", "12", "A dozen is twelve."), ("What season comes after winter?", "spring", "Spring comes after winter."),
    ("What is the first letter of the alphabet?", "A", "The first letter of the alphabet is A."), ("What is the last letter of the alphabet?", "Z", "The last letter of the alphabet is Z."),
]
SHORT_REQUESTS = (" Answer in one word.", " One word, please.", " Reply with one word only.", " Only the name, please.")


def draw_fact(rng) -> tuple[str, str, str]:
    """A question, its answer in a word or two, and its answer as a sentence."""
    return rng.choice(_DRAWS)(rng)


def _capital(rng):
    country, city = rng.choice(list(CAPITALS.items()))
    if rng.random() < 0.2:
        return f"{city} is the capital of which country?", country, f"{city} is the capital of {country}."
    question = rng.choice(("What is the capital of {}?", "Capital of {}?", "Which city is the capital of {}?", "What's the capital of {}?",
                           "Tell me the capital of {}.", "Name the capital of {}.")).format(country)
    return question, city, f"The capital of {country} is {city}."


def _table(mapping, questions, sentence):
    def draw(rng):
        key, value = rng.choice(list(mapping.items()))
        return rng.choice(questions).format(key), str(value), sentence.format(key, value)
    return draw


def _calendar(rng):
    names, unit = rng.choice(((words.DAYS, "day"), (words.MONTHS, "month")))
    place = rng.randrange(len(names))
    after = rng.random() < 0.5
    other = names[(place + (1 if after else -1)) % len(names)]
    word = "after" if after else "before"
    question = rng.choice((f"What {unit} comes {word} {names[place]}?", f"Which {unit} is {word} {names[place]}?"))
    return question, other, f"{other} comes {word} {names[place]}."


def _general(rng):
    return rng.choice(GENERAL)


_DRAWS = (
    _capital, _capital, _capital, _calendar, _general, _general,
    _table(OPPOSITES, ("What is the opposite of {}?", "Opposite of {}?", "Tell me the opposite of {}."), "The opposite of {} is {}."),
    _table(PLURALS, ("What is the plural of {}?", "Plural of {}?"), "The plural of {} is {}."),
    _table(PASTS, ("What is the past tense of {}?", "Past tense of {}?"), "The past tense of {} is {}."),
    _table(GERMAN, ("What is {} in German?", 'How do you say "{}" in German?', "Translate {} to German."), "In German, {} is {}."),
    _table(CHINESE, ("What is {} in Chinese?", 'How do you say "{}" in Chinese?'), "In Chinese, {} is {}."),
    _table(SOUNDS, ("What does a {} say?", "What sound does a {} make?"), "A {} says {}."),
    _table(COLOURS_OF, ("What colour is {}?", "Which colour has {}?"), "The colour of {} is {}."),
    _table(LEGS, ("How many legs does {} have?",), "The number of legs of {} is {}."),
)


def fact(rng) -> Conversation:
    """One to three facts asked in a row; a sentence unless one word is wanted."""
    mode = draw_mode(rng, 0.35)
    messages = []
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        question, short, sentence = draw_fact(rng)
        brief = rng.random() < 0.3
        answer = short if brief else sentence
        asked = question + (rng.choice(SHORT_REQUESTS) if brief else "")
        thought = by_effort(mode.effort, "This is a simple fact.", f"The answer is {short}.", sentence)
        messages += exchange(asked, answer, mode, thought)
    return Conversation(messages, mode)
