"""Bytes as words that two people can compare by telephone: one of 256 for every byte.

The words are short and plain. No two begin with the same four letters, and to get from one to another takes three
letters: what was misheard is another word, or none. Their order is fixed for good: it is what they mean.

Few words are few bits, so that somebody could try until two things have the same ones: the digest that they tell is
made slow.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache

WORDS = """
acorn almond anchor ankle apron atlas attic avocado badger balcony bamboo banana banjo barley basket beacon beetle
bicycle biscuit blossom bonfire boulder bridge bronze bubble buffalo butter cabbage cactus camera canoe captain
caravan carpet castle cedar cello cement cherry chimney circus clover cobweb coconut coffee compass copper coral
cottage cowboy crayon cricket crystal cushion cyclone daisy dancer desert diamond doctor dolphin domino donkey
drawer drizzle drum dungeon dynamo eagle easel eclipse elbow ember emerald engine evening fabric farmer feather
fiddle finger fireman flute forest fossil fox freckle freezer funnel furnace galaxy garden garlic gazelle giraffe
glacier goblet gondola goose gorilla granite grapes guitar hamlet hammock helmet highway horizon hornet hotel hurdle
hydrant igloo indigo insect island ivory jaguar jewel jigsaw judge kayak kernel kimono kiwi knight koala lemon
lentil lilac locket lotus lynx magnet marble meadow meteor mirror mitten mosaic muffin museum mustard napkin nectar
nickel noodle nutmeg oasis oatmeal ocean octopus olive onion opera orange orbit orchid ostrich owl painter palace
pancake papaya parrot peacock peanut pelican penguin petal piano picnic pigeon pillow pirate polar pony potato
pottery prairie pretzel pumpkin puppet puzzle pyramid quarry queen quilt quiver rabbit radish railway rainbow raisin
raven ribbon robin rubber ruby saffron sailor sandal sardine scarf school seagull shampoo silver skylark slipper
snorkel snow soldier spider spinach stadium sugar summer sunset swallow sweater symbol teapot temple tennis thimble
thunder toast topaz tornado tower tractor trumpet tulip tundra typhoon unicorn vacuum vanilla village violet volcano
vulture waffle wagon walnut wheat whisker window wizard wolf wrench yacht zebra zigzag zodiac
""".split()  # noqa: SIM905 - 256 words are read as words


def spoken(digest: bytes) -> str:
    """One word a byte: `acorn bridge violet`."""
    return " ".join(WORDS[byte] for byte in digest)


def slow_digest(content: object, salt: bytes, size: int) -> bytes:
    """A digest that costs some 40 ms and 16 MiB, so that few can be tried."""
    return _cached(json.dumps(content, sort_keys=True), salt, size)


@lru_cache(maxsize=16)  # it is slow on purpose, and asked for often
def _cached(text: str, salt: bytes, size: int) -> bytes:
    return hashlib.scrypt(text.encode(), salt=salt, dklen=size, n=1 << 14, r=8, p=1)
