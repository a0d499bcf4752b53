"""Word lists that every generator draws from. Nothing here but words."""


def _list(text: str) -> list[str]:
    return text.split()


FIRST_NAMES = _list("""
Anna Ben Clara David Elena Felix Greta Hugo Ida Jonas Karin Leo Mara Nils Olga Paul Quinn Rosa Sam Tara Uwe Vera Willem
Xenia Yara Zoe Amir Bao Chen Diego Emma Farid Gita Hana Ivan Julia Kofi Lars Maya Noah Omar Priya Ravi Sofia Tom Uma
Viktor Wendy Yusuf Zara Alice Bob Carol Dan Eve Frank Grace Henry Iris Jack Kate Liam Mia Nina Oscar Peter Ruth Simon
Theo Ursula Wanda Aiko Boris Celia Dora Emil Fiona George Hilda Ingrid Jakob Klara Lena Martin Nora Otto Petra Rita
""")
LAST_NAMES = _list("""
Smith Miller Weber Novak Rossi Silva Kim Tanaka Nguyen Garcia Khan Olsen Brown Fischer Lopez Ivanov Dubois Jansen Moreau
Costa Schmidt Becker Hansen Larsen Wilson Taylor Clark Lewis Walker Young King Wright Hill Green Baker Adams Nelson
""")
CITIES = _list("""
Paris London Berlin Madrid Rome Vienna Oslo Stockholm Helsinki Copenhagen Lisbon Dublin Warsaw Prague Budapest Athens
Cairo Nairobi Lagos Accra Tunis Tokyo Kyoto Osaka Seoul Beijing Shanghai Hanoi Bangkok Delhi Mumbai Karachi Dhaka Manila
Jakarta Sydney Melbourne Perth Auckland Toronto Montreal Boston Chicago Denver Seattle Houston Dallas Miami Lima Quito
Bogota Santiago Caracas Havana Munich Hamburg Cologne Zurich Geneva Basel Milan Turin Naples Venice Porto Seville Valencia
Lyon Nice Lille Ghent Bruges Utrecht Rotterdam Bergen Malmo Turku Riga Tallinn Vilnius Minsk Kyiv Lviv Odessa Sofia
Belgrade Zagreb Ljubljana Bratislava Krakow Gdansk Leipzig Dresden Bremen Graz Salzburg Linz Bern Edinburgh Glasgow Leeds
Bristol York Oxford Cork Galway Reykjavik Tromso Uppsala Aarhus Izmir Ankara Istanbul Tehran Baghdad Amman Doha Dubai
Muscat Riyadh Tashkent Almaty Lahore Kabul Colombo Kathmandu Hue Saigon Phuket Penang Darwin Hobart Wellington Suva
""")
COLOURS = _list("red blue green yellow orange purple black white brown grey pink silver golden violet turquoise")
ANIMALS = _list("""
cat dog fox bear wolf horse cow sheep goat pig hen duck goose owl eagle raven crow swan frog toad mouse rat rabbit hare deer
lion tiger zebra camel monkey whale shark seal otter beaver badger hedgehog squirrel snail bee ant spider turtle snake lizard
""")
FRUITS = _list("apple pear plum peach cherry grape lemon lime mango banana melon kiwi fig date orange apricot papaya berry")
FOODS = _list("""
bread rice soup pasta cheese butter honey milk tea coffee salt pepper sugar potato tomato carrot onion garlic bean pea cabbage
pumpkin mushroom egg fish salad pizza cake pie noodle sandwich pancake biscuit yoghurt
""")
OBJECTS = _list("""
table chair lamp book pen cup plate spoon knife fork bottle box bag key door window clock mirror carpet bed shelf basket
bucket ladder hammer saw nail rope candle coin ring hat coat shoe glove scarf umbrella bicycle car train boat plane wheel
engine radio phone camera screen keyboard printer letter map ticket stamp drum violin piano guitar flute bell kite ball
""")
PLACES = _list("""
garden forest river lake mountain valley island village town city market harbour bridge tower castle church school library
museum station airport hospital kitchen cellar attic office factory farm field meadow beach desert cave park street square
""")
ADJECTIVES = _list("""
old new small large big little long short tall wide narrow deep warm cold hot cool dry wet soft hard heavy light bright dark
clean quiet loud fast slow early late young kind brave clever gentle happy sad angry calm strong weak rich poor sharp round
flat sweet sour bitter fresh empty full open closed broken simple strange famous secret hidden ancient modern wild tame busy
""")
ADVERBS = _list("slowly quickly quietly carefully often always never sometimes gently suddenly happily early late soon again")
VERBS_PAST = _list("""
found saw carried painted cleaned opened closed moved watched bought sold lost kept hid showed lifted dropped repaired built
broke washed counted drew touched followed remembered forgot liked visited noticed borrowed collected measured
""")
VERBS = _list("""
find see carry paint clean open close move watch buy sell lose keep hide show lift drop repair build break wash count draw
touch follow remember forget like visit notice borrow collect measure read write send start stop help learn play sing walk run
""")
NOUNS = _list("""
time year day way world life hand part child eye woman place work week case point company number group problem fact water air
fire earth stone wood iron glass paper cloth wind rain snow storm cloud sun moon star sky sea wave sand hill road path wall
roof floor room house home family friend neighbour teacher farmer doctor baker sailor painter king queen soldier captain child
voice song story word name question answer idea dream plan game money price gift meal morning evening night winter summer
spring autumn month hour minute second moment history music art science nature machine system program server network model
token memory actor message layer page cache engine kernel signal sensor battery report project meeting lesson garden tool
""")
COMMON = _list("""
a about above across act action active add address afraid age agree air allow alone along already although among amount anger
angle announce another anyone anything appear apply area argue arm army around arrive article ask attack attempt attention
aunt author average avoid away back balance bank base basic bath battle bear beat beautiful became because become before began
begin behind believe belong below beside best better between beyond bird birth bit bite blame block blow board body bone border
born both bottom bowl brain branch breakfast breath bring brother brush build burn business button call calm capital care
carefully catch cause central certain chance change character charge chase cheap check chest chief choice choose circle class
clear climb cloth club coast collect college colour comfort common compare complete condition consider contain continue control
cook copper corner correct cost cotton cough count country couple courage course cousin cover crime cross crowd cry culture
cure current curve custom customer cut damage dance danger dangerous daughter dead deal death debt decide decision decrease
defend degree deliver demand depend describe desert design desire detail develop device difference different difficult dinner
direct direction discover discuss disease distance divide doubt dress drink drive dust duty each eager earn east easy eat edge
education effect effort eight either electric eleven else employ end enemy energy enjoy enough enter entire equal escape
especially event ever every everyone exact example excellent except exchange excuse exercise exist expect expensive experience
explain express extra eye face fact fail faint fair faith fall false familiar far fashion father fault favour fear feature feed
feel fellow fence fever few fiction field fierce fight figure fill film final finally finger finish firm first fit fix flag
flame flash flesh float flood flow flower fly fold follow foot force foreign form forward frame free freedom freeze frequent
front fruit fuel full fun funny furniture future gain general generation gentle gather get giant girl glad glory goal god goes
gone government grain grand grandmother grass gratitude great greet ground group grow guard guess guest guide guilty habit
hair half handle hang happen harm hate have head health hear heart heat heaven height hello help her here hero hide him himself
his hit hold hole holiday holy honest hope host hour however huge human humble hunger hunt hurry hurt husband if ill imagine
important improve include increase indeed independent indicate industry inform inside instead interest into invent invite issue
job join joke joy judge juice jump just justice keep kick kill kiss knee knock knowledge labour lack lady land language
laugh law lay lazy lead learn least leather leave leg lend less let level library lie lift like limit line lip liquid list
listen live local lock lonely look loose lord lot love lower luck lunch machine mad mail main make man manner many march mark
market marriage mass master match material matter may maybe mean meat medicine meet member mention merely metal method middle
might mile million mind mine minister miss mistake mix model modern month moral more most mother motion mouth move much mud
murder muscle must mystery narrow nation native natural near nearly neck need needle neither nerve nest net never news next
nice noble nobody noise none nor north nose note nothing notice now nurse obey object observe occasion ocean offer office
official often oil only open operate opinion opportunity opposite orange order ordinary organ other ought our outside oven over
owe own pack pain pair pale paper parent park part particular partner party pass passage past patient pattern pause pay peace
people per perfect perform perhaps period permit person photograph pick picture piece pile pilot pink pipe pity plain plant
plastic plate play pleasant please pleasure plenty pocket poem poet point poison police polite political pool popular
population position possess possible post pound pour power practical praise pray prefer prepare present president press pretty
prevent pride priest primary prince print prison private prize probable problem process produce profit promise proof proper
property protect proud prove provide public pull pump punish pupil pure purpose push put quality quantity quarter question
quick quite race raise range rare rate rather raw reach react ready real reason receive recent recognise record reduce refer
reflect refuse regard regret regular relation religion remain remark remove rent repeat replace reply represent request
require rescue respect responsible rest restaurant result return revenge reward rhythm rice ride rise risk rival root
rough row royal rub rubber ruin rule rush sacred safe sail salary sale same sample satisfy save say scale scatter scene scheme
scientist search season seat second secretary seed seem seize seldom self selfish sense sentence separate serious serve service
set settle several severe shade shadow shake shall shame shape share shave shelter shine ship shock shoot shop shore should
shoulder shout shut sick side sight sign silence silk similar simply since sincere single sister sit situation size skill skin
skirt sleep slide slight slip smell smile smoke smooth society soil solemn solid solution some somebody son soon sorry sort
soul sound south space spare speak special speech speed spell spend spirit split spoil sport spot spread square stage stair
stamp stand standard state station stay steady steal steam steel steep stem step stick stiff still stir stock stomach stop
store straight stranger stream strength stretch strike string strip stroke structure struggle student study stupid subject
substance succeed success such sudden suffer suggest suit support suppose sure surface surprise swear sweat sweep swell swing
system tail talent talk task taste tax tea teach team tear telephone temper temple tempt tend tender tent term terrible test
than thank that their them theory therefore thick thief thing think thirst this thorough those though thought thousand thread
threat throat through throw thumb thunder thus ticket tidy tight till tip tired title together tomorrow tone tongue tonight too
top total touch tough tour toward track trade tradition translate trap travel treasure treat tremble trial tribe trick trip
trouble true trust truth try tube tune turn twice twist type ugly uncle under understand union unit unite universe university
until upon upper urge us use useful usual vain value various vast vegetable vehicle very vessel victory view violent virtue
visitor voice vote voyage wage waist wait wake wander want war warn waste weak wealth weapon wear weave welcome well went were
west what when where whether which while whip whisper whistle whole whose why wicked wide wife will win window wine wing wire
wise wish within without witness wonder wool worker worry worse worship worth would wound wrap wrist write wrong yard yellow
yesterday yet yield your youth zero
""")
DAYS = _list("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
MONTHS = _list("January February March April May June July August September October November December")
SKIES = _list("sunny cloudy rainy windy foggy snowy stormy clear")
UNITS = _list("metres feet miles kilometres grams pounds litres gallons inches centimetres euros dollars yen celsius fahrenheit")
LANGUAGES = _list("German French Spanish Italian Dutch Polish Czech Greek Turkish Arabic Hindi Japanese Korean Chinese Danish")
ROOMS = ["kitchen", "bedroom", "living room", "office", "hall", "cellar", "garage", "bathroom", "attic", "garden"]
GREEK = _list("alpha beta gamma delta epsilon zeta theta kappa lambda sigma omega phi")
METALS = _list("iron gold silver copper tin zinc nickel cobalt lead steel bronze amber jade ruby opal pearl coral")

NUMBER_WORDS = _list("""
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty
""")

_STARTS = _list("b br c ch d dr f fl g gr h j k kl l m n p pl qu r s sh sk st t th tr v w x y z")
_MIDDLES = _list("a e i o u ai ea ee oo ou ar en il or un ax ev im ol ur")
_ENDS = _list("b ck d f g k l m n nd p r s sh st t v x z th ta lo mi ra ven dor lin mar tis")


def made_up_word(rng, syllables: int = 2) -> str:
    """A pronounceable word that no dictionary has: names that can only be copied."""
    parts = []
    for _ in range(syllables):
        parts.append(rng.choice(_STARTS) + rng.choice(_MIDDLES))
    return "".join(parts) + rng.choice(_ENDS)


_IRREGULAR = {"child": "children", "woman": "women", "mouse": "mice", "goose": "geese", "life": "lives", "knife": "knives",
              "shelf": "shelves", "wolf": "wolves", "leaf": "leaves", "potato": "potatoes", "tomato": "tomatoes",
              "sheep": "sheep", "deer": "deer", "fish": "fish"}


def plural(noun: str) -> str:
    """The plural of a noun of these lists."""
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def count_word(number: int) -> str:
    """0..99 in words."""
    if number <= 20:
        return NUMBER_WORDS[number]
    tens = _list("twenty thirty forty fifty sixty seventy eighty ninety")[number // 10 - 2]
    return tens if number % 10 == 0 else f"{tens}-{NUMBER_WORDS[number % 10]}"
