"""Questions about a paragraph, with answers of one word: who has what, and who is where.

    Ada has the lamp. Tom is in the market. Tom goes to the garden. Ada gives the lamp to Tom. ...
    Where is Ada now?        kitchen
    Who has the lamp now?

Each story has some questions that are answered already, so that a small model sees what is asked of
it. The prompt is long and the answer short, so generating is cheap where a prompt is read once for
all its rollouts.
"""

import random
from collections.abc import Mapping
from typing import Any

from podslab.tasks.base import Grade, Messages, Row
from podslab.tasks.made_up import MadeUp, split_of

_PEOPLE = ("Ada", "Ben", "Cora", "Dan", "Ella", "Finn", "Gus", "Hana", "Ivan", "Tom")
_THINGS = ("lamp", "key", "book", "cup", "coat", "map", "ball", "clock")
_PLACES = ("garden", "kitchen", "school", "market", "church", "station", "harbour", "library")
_IN_A_STORY = 4
_ANSWERED = 3
_ASK = "Answer with one word."


class _Story:
    """The sentences of a story, and who has what and is where at its end.

    Args:
        draw: Draws all that happens.
        events: The number of sentences after those that say where everything is.
    """

    def __init__(self, draw: random.Random, events: int) -> None:
        self._draw = draw
        people = draw.sample(_PEOPLE, _IN_A_STORY)
        self.owner_of = dict(zip(draw.sample(_THINGS, _IN_A_STORY), people, strict=True))
        self.place_of = dict(zip(people, draw.sample(_PLACES, _IN_A_STORY), strict=True))

        self.sentences = [f"{owner} has the {thing}." for thing, owner in self.owner_of.items()]
        self.sentences += [
            f"{person} is in the {place}." for person, place in self.place_of.items()
        ]
        for _ in range(events):
            happens = draw.choice((self._goes, self._gives))
            self.sentences.append(happens())

    def questions(self) -> list[tuple[str, str]]:
        """All questions about the end of the story with their answers, in a drawn order."""
        found = [(f"Who has the {thing} now?", owner) for thing, owner in self.owner_of.items()]
        found += [(f"Where is {person} now?", place) for person, place in self.place_of.items()]
        return self._draw.sample(found, len(found))

    def _goes(self) -> str:
        person = self._draw.choice(list(self.place_of))
        place = self._draw.choice([one for one in _PLACES if one != self.place_of[person]])
        self.place_of[person] = place
        return f"{person} goes to the {place}."

    def _gives(self) -> str:
        thing, giver = self._draw.choice(list(self.owner_of.items()))
        taker = self._draw.choice([one for one in self.place_of if one != giver])
        self.owner_of[thing] = taker
        return f"{giver} gives the {thing} to {taker}."


class Stories(MadeUp):
    """Stories with a question that is left to answer, the same for every seed of a run.

    A hash of a story decides its split, so no story is in two of them.

    Args:
        events: The sentences of a story after its first eight; each has about eight tokens.
        train_size, tuning_size, test_size: The questions of each split.
    """

    name = "stories"
    summary = "who has what, and who is where, in a word"
    source = "made up here, from a fixed seed"
    example = {  # noqa: RUF012
        "story": "Ada has the key. Ada is in the garden. Ada gives the key to Tom.",
        "answered": [["Where is Ada now?", "garden"]],
        "question": "Who has the key now?",
        "answer": "Tom",
    }
    example_right = "Tom."
    example_wrong = "Tom or Ada"

    def __init__(
        self,
        events: int = 4,
        train_size: int = 2048,
        tuning_size: int = 200,
        test_size: int = 200,
    ) -> None:
        self.events = events
        super().__init__(train_size, tuning_size, test_size)

    def rows_of(self, split: str) -> list[Row]:
        """Rows with `story`, `answered` (pairs of question and answer), `question` and `answer`."""
        draw = random.Random(f"stories {split}")
        rows: list[Row] = []
        while len(rows) < self.sizes[split]:
            story = _Story(draw, self.events)
            text = " ".join(story.sentences)
            if split_of(text) == split:
                (question, answer), *others = story.questions()
                rows.append(
                    {
                        "story": text,
                        "answered": [list(pair) for pair in others[:_ANSWERED]],
                        "question": question,
                        "answer": answer,
                    }
                )
        return rows

    def prompt(self, row: Mapping[str, Any]) -> Messages:
        """The story, the answered questions, and the question that is left, as a conversation.

        An empty system prompt keeps a model's own out.
        """
        turns: Messages = [{"role": "system", "content": ""}]
        for question, answer in row["answered"]:
            turns.append({"role": "user", "content": question})
            turns.append({"role": "assistant", "content": answer})
        turns.append({"role": "user", "content": str(row["question"])})

        turns[1]["content"] = f"{row['story']} {_ASK} {turns[1]['content']}"
        return turns

    def gold_completion(self, row: Mapping[str, Any]) -> str:
        """The answer alone."""
        return str(row["answer"])

    def grade(self, completion: str, row: Mapping[str, Any]) -> Grade:
        """Right is a completion that ends with the answer, with or without a full stop.

        In the form is a single word.
        """
        words = completion.split()
        is_right = bool(words) and words[-1].removesuffix(".") == str(row["answer"])
        return Grade(is_right, len(words) == 1)
