"""A small model that spells words backward, sloppily: the evidence rests not on sums alone.

For the task `reasoning_gym:spell_backward`. It is of the size of the embedded model and
warm-started in the same way; the words that it learns from are letters drawn at random.
"""

import hashlib
import json
import random
import string
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tokenizers import AddedToken
from transformers import Qwen2Tokenizer

from podslab.models.cache import cached
from podslab.models.tiny.build import Lesson, build
from podslab.models.tiny.settings import TinySettings
from podslab.models.tiny.tokenizer import build_tokenizer

#: What the task writes before each word.
ASKED = "Spell this word backward (example: sun -> nus): "
_LAST = 8  # the index at which slips are most frequent, in words of 9 letters
_CAPITALS = 0.1  # share of the words that begin with one


def spelled(word: str, letters: Sequence[str]) -> str:
    """The working and the answer of one who reads these letters from the end of the word on.

    >>> spelled("sun", "nus")
    '<think>\\nn3u2s1\\n</think>\\n<answer>\\nnus\\n</answer>'
    """
    places = range(len(word), 0, -1)
    working = "".join(f"{letter}{place}" for letter, place in zip(letters, places, strict=True))
    return f"<think>\n{working}\n</think>\n<answer>\n{''.join(letters)}\n</answer>"


def sloppy_spelling(draw: random.Random, letters: int, noise: float) -> tuple[str, str]:
    """A word drawn at random and its working, with slips, which the answer repeats.

    The first letter written is right. From there on slips get more frequent, evenly, up to the
    probability `noise` at the ninth: short words are nearly solved, long ones nearly hopeless.
    """
    word = "".join(draw.choices(string.ascii_lowercase, k=letters))
    if draw.random() < _CAPITALS:
        word = word.capitalize()
    written = [
        _another(draw, letter) if draw.random() < noise * index / _LAST else letter
        for index, letter in enumerate(reversed(word))
    ]
    return word, spelled(word, written)


def _another(draw: random.Random, letter: str) -> str:
    return draw.choice(string.ascii_lowercase.replace(letter.lower(), ""))


def build_speller_tokenizer() -> Qwen2Tokenizer:
    """The embedded model's, where the task's sentence is one token: updates stay short."""
    tokenizer = build_tokenizer()
    tokenizer.add_tokens([AddedToken(ASKED, special=False, normalized=False)])
    return tokenizer


def lesson(tokenizer: Qwen2Tokenizer, settings: TinySettings) -> Lesson:
    """Draws words of min_columns to max_columns letters, each length as often as the others."""

    def example(draw: random.Random) -> list[tuple[str, bool]]:
        letters = draw.randint(settings.min_columns, settings.max_columns)
        word, working = sloppy_spelling(draw, letters, settings.noise)
        asked = [{"role": "user", "content": ASKED + word}]
        prompt = tokenizer.apply_chat_template(asked, tokenize=False)
        return [(str(prompt), False), (working + tokenizer.eos_token, True)]

    return example


def get_speller(options: Mapping[str, Any]) -> Path:
    """The folder of the model with these `TinySettings`, built now if it is not in the cache."""
    settings = TinySettings(**options)

    def make(folder: Path) -> None:
        tokenizer = build_speller_tokenizer()
        for part in build(settings, tokenizer=tokenizer, lesson=lesson(tokenizer, settings)):
            part.save_pretrained(folder)

    digest = hashlib.sha256(json.dumps(asdict(settings), sort_keys=True).encode())
    digest.update(Path(__file__).read_bytes())
    return cached(f"speller-{digest.hexdigest()[:16]}", make, {"settings": asdict(settings)})
