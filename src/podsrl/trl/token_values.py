"""The log-probability and the entropy of each token, for the rollout log.

They are those of the moment in which a token was sampled, so no further pass is needed. While
transformers generates, a logits processor looks on; another engine, such as vLLM, returns the
log-probabilities itself, without entropies.

Both are after the temperature, and before what cuts the distribution (`top_k`, `top_p`, `min_p`):

    log p(token) = x[token] - logsumexp(x),   H = logsumexp(x) - sum(softmax(x) x),   x = logits / T
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList

from podsrl.trl.one_reading import setting
from podsrl.trl.rows import Columns
from podsrl.trl.seam import in_front

_ROWS = 32  # whose distributions are in memory a second time
_UNFINISHED = "�"  # what a tokenizer makes of a part of a character


@dataclass(frozen=True)
class _Call:
    """The tokens and values of one call of `generate`.

    Args:
        length: The tokens of the longest completion.
        tokens, logprobs, entropies: Of the first tokens, shape (rows, tokens).
    """

    length: int
    tokens: np.ndarray
    logprobs: np.ndarray
    entropies: np.ndarray

    def of_row(self, row: int, ids: Sequence[int]) -> tuple[np.ndarray, np.ndarray] | None:
        """The values of a row, if these are the tokens that the call made for it."""
        looked_at = min(len(ids), self.tokens.shape[1])
        if len(ids) > self.length or not np.array_equal(
            self.tokens[row, :looked_at], ids[:looked_at]
        ):
            return None
        return self.logprobs[row, :looked_at], self.entropies[row, :looked_at]


class TokenValues:
    """Takes down the values of tokens while a trainer generates.

    Args:
        limit: The tokens of a completion whose values are taken down, the first ones.
        tell: Is told once where what generates gives none.
    """

    def __init__(self, limit: int, tell: Callable[[str], None]) -> None:
        self._limit = limit
        self._tell = tell
        self._has_told = False
        self._calls: list[_Call] = []

    @contextmanager
    def around(self, model: Any) -> Iterator[None]:
        """Calls of `model.generate` inside are looked at.

        Args:
            model: The model that is asked to generate, without what the trainer wraps it in.
        """
        model = getattr(model, "_orig_mod", model)  # what torch.compile has wrapped
        generate = model.generate
        self._calls = []

        def looked_at(**given: Any) -> Any:
            temperature = setting(given["generation_config"], model, "temperature") or 1.0
            watch = _Watch(self._limit, float(temperature))
            tokens = generate(**given, logits_processor=LogitsProcessorList([watch]))
            if watch.has_looked:  # a `generate` of the user's may pass over it
                self._calls.append(watch.call(tokens[:, given["input_ids"].shape[1] :]))
            return tokens

        with in_front(model, generate=looked_at):
            yield

    def columns(self, generated: Columns) -> Columns:
        """The columns "token_logprobs" and "token_entropies" of what was generated.

        A value is an array for the last message of a rollout, or None where it is not known: with
        tools, transformers generates a rollout in pieces.
        """
        ids = generated["completion_ids"] or ()
        if (logprobs := generated["logps"]) is not None:
            masks = generated["tool_mask"] or [None] * len(ids)
            of_engine = [
                np.array(values[last_message(mask)][: self._limit], dtype=np.float32)
                for values, mask in zip(logprobs, masks, strict=True)
            ]
            return {"token_logprobs": of_engine, "token_entropies": None}

        first = next((call for call in self._calls if len(call.tokens) == len(ids)), None)
        if first is None:
            self._tell_once("what generates here returns no log-probabilities of tokens")
            return {}
        pairs = [first.of_row(row, of_row) or (None, None) for row, of_row in enumerate(ids)]
        return {
            "token_logprobs": [logprobs for logprobs, _ in pairs],
            "token_entropies": [entropies for _, entropies in pairs],
        }

    def _tell_once(self, reason: str) -> None:
        if not self._has_told:
            self._has_told = True
            self._tell(reason)


class _Watch(LogitsProcessor):
    """Looks at the distributions that tokens are sampled from, and changes none.

    It is called with the logits of a token, and sees which one was sampled when it is called for
    the next one.
    """

    def __init__(self, limit: int, temperature: float) -> None:
        self._limit = limit
        self._temperature = temperature
        self._scaled: torch.Tensor | None = None  # of the token that is being sampled
        self._totals: list[torch.Tensor] = []  # logsumexp
        self._sampled: list[torch.Tensor] = []  # the scaled logit of the sampled token
        self._entropies: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Take down what is known of the last token, and of this one."""
        if self._scaled is not None:
            self._take_down(input_ids[:, -1])
        if len(self._totals) < self._limit:
            self._scaled = scores / self._temperature
            totals = torch.logsumexp(self._scaled, dim=-1)
            self._totals.append(totals)
            self._entropies.append(torch.cat([*map(_entropy, self._scaled.split(_ROWS))]))
        return scores

    @property
    def has_looked(self) -> bool:
        """Whether it was called at all."""
        return bool(self._totals)

    def call(self, tokens: torch.Tensor) -> _Call:
        """All that was taken down.

        Args:
            tokens: The completions that `generate` returned, shape (rows, tokens).
        """
        if self._scaled is not None:
            self._take_down(tokens[:, len(self._sampled)])
        looked_at = len(self._totals)
        logprobs = torch.stack(self._sampled, dim=1) - torch.stack(self._totals, dim=1)
        entropies = torch.stack(self._entropies, dim=1)
        return _Call(
            tokens.shape[1],
            tokens[:, :looked_at].cpu().numpy(),
            logprobs.float().cpu().numpy(),
            entropies.float().cpu().numpy(),
        )

    def _take_down(self, sampled: torch.Tensor) -> None:
        assert self._scaled is not None, "no distribution was looked at"
        self._sampled.append(self._scaled.gather(1, sampled[:, None])[:, 0])
        self._scaled = None


def _entropy(scaled: torch.Tensor) -> torch.Tensor:
    """The entropy of distributions, in nats; a token of probability 0 adds nothing."""
    return torch.distributions.Categorical(logits=scaled, validate_args=False).entropy()


def last_message(mask: Sequence[int] | None) -> slice:
    """The tokens after the last one that a tool returned."""
    if mask is None:
        return slice(None)
    returned = [place for place, is_own in enumerate(mask) if not is_own]
    return slice(returned[-1] + 1 if returned else 0, None)


class TokenEnds:
    """Where tokens end in a text, in characters.

    Args:
        tokenizer: What decodes; it is asked once for each token that ever occurs.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._pieces: dict[int, str] = {}
        # Some tokenizers drop a space at the beginning of a text.
        self._before = tokenizer.encode("a", add_special_tokens=False)[-1:]

    def of(self, text: str, ids: Sequence[int]) -> list[int] | None:
        """The end of each token; None where the text is not what these tokens say.

        Args:
            text: A completion.
            ids: Its first tokens.
        """
        ends: list[int] = []
        end = 0
        for is_part, some in groupby(ids, lambda token: _UNFINISHED in self._piece(token)):
            tokens = list(some)
            for piece in self._pieces_of_parts(tokens) if is_part else map(self._piece, tokens):
                if not text.startswith(piece, end):
                    return None
                end += len(piece)
                ends.append(end)
        return ends

    def _pieces_of_parts(self, ids: list[int]) -> Iterator[str]:
        """The text that each of these tokens adds; none of them is whole characters by itself."""
        done = ""
        for number in range(1, len(ids) + 1):
            text = self._decode(ids[:number])
            is_last = number == len(ids)
            whole = text if is_last else text.rstrip(_UNFINISHED)
            yield whole[len(done) :]
            done = whole

    def _piece(self, token: int) -> str:
        if token not in self._pieces:
            self._pieces[token] = self._decode([token])
        return self._pieces[token]

    def _decode(self, ids: list[int]) -> str:
        before, whole = self._tokenizer.batch_decode(
            [self._before, [*self._before, *ids]], skip_special_tokens=True
        )
        return str(whole[len(before) :])
