"""words: words of several scripts for made-up text; see sample."""

# How words are joined, and the words.
SCRIPTS = {
    "latin": (" ", (
        "harbour morning coffee bicycle garden train lantern tomorrow window "
        "letter kitchen river maybe always together quickly über naïve café "
        "mañana señal garçon straße źródło çiçek smörgås").split()),
    "cyrillic": (" ", (
        "привет завтра река окно письмо сегодня поезд чай книга дорога "
        "вместе скоро погода работа город спасибо хорошо вечер").split()),
    "chinese": ("", (
        "今天 明天 天气 很好 我们 一起 喝茶 火车 晚上 早上 好的 谢谢 "
        "朋友 公园 下雨 工作 开会 再见").split()),
    "arabic": (" ", (
        "مرحبا غدا صباح مساء قهوة كتاب مدينة نافذة قطار شكرا صديق "
        "اليوم معا مطر حديقة رسالة").split()),
    "hindi": (" ", (
        "नमस्ते आज कल सुबह शाम चाय किताब शहर खिड़की रेल धन्यवाद दोस्त "
        "साथ बारिश बगीचा चिट्ठी").split()),
    "japanese": ("", (
        "おはよう 今日 明日 天気 電車 コーヒー 友達 一緒に 行きましょう "
        "ありがとう 会議 公園 雨 夜 了解です").split()),
    "korean": (" ", (
        "안녕하세요 오늘 내일 날씨 기차 커피 친구 함께 고마워요 회의 공원 "
        "비가 저녁 좋아요").split()),
}

EMOJI = "😀 🎉 👍 🙏 🚲 ☕ 🌧 🐈 ❤️ 👩‍🚀 🇯🇵 🥟".split()

SYLLABLES = ("ka mi ro sa lu ne ti bo da ve jo ra phi zu le no wi an es "
             "or ha qu im").split()

# Topics of the conversations, in the script in which most of one is written.
TITLES = [
    ("harbour", "latin"), ("北京茶馆", "chinese"), ("вокзал", "cyrillic"),
    ("القهوة", "arabic"), ("चाय", "hindi"), ("電車", "japanese"),
    ("공원", "korean"), ("bicycles", "latin"), ("kitchen", "latin"),
]


def name(rnd, taken):
    """A name of two to four syllables that isn't taken yet."""
    while True:
        made = "".join(rnd.choices(SYLLABLES, k=rnd.randint(2, 4)))
        if made not in taken:
            taken.add(made)
            return made


def text(rnd, script, size):
    """Words of one script, about `size` bytes; now and then an emoji."""
    join, words = SCRIPTS[script]
    out = rnd.choice(words)
    while len(out.encode()) < size:
        out += join + rnd.choice(words)
    if rnd.random() < .12:
        out += " " + rnd.choice(EMOJI)
    return out
