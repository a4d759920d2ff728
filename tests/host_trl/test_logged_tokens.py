"""Log-probabilities, entropies and images in the rollout log."""

import base64
import io
import json
from itertools import pairwise
from typing import Any

import pytest
import torch
import trl
from packaging.version import Version
from PIL import Image
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from trl import GRPOTrainer

from podsrl.errors import InvalidInputError
from podsrl.rollout_log.columns import column_kinds
from podsrl.trl import PODSConfig
from podsrl.trl.logged_images import LoggedImages
from podsrl.trl.token_values import TokenEnds, TokenValues
from support.agent_scenarios import SCENARIOS
from support.agents import agent_trainer, square
from support.trl_runs import equal, table_of, weights

TEMPERATURE = 0.7


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[int], list[int]]]:
    """The tokens of each prompt and completion that a GRPOTrainer generates from now on."""
    rows: list[tuple[list[int], list[int]]] = []
    generate = GRPOTrainer._generate

    def remember(self: Any, prompts: list[Any]) -> Any:
        output = generate(self, prompts)
        rows.extend(zip(output[0], output[1], strict=True))
        return output

    monkeypatch.setattr(GRPOTrainer, "_generate", remember)
    return rows


def by_a_pass(
    model: Any, prompt: list[int], completion: list[int], temperature: float = TEMPERATURE
) -> tuple[Any, Any]:
    """Log-probabilities and entropies of a completion, by one pass over its whole text."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
    logps = torch.log_softmax(logits.double() / temperature, dim=-1)
    sampled = logps.gather(1, torch.tensor(completion)[:, None])[:, 0]
    return sampled.numpy(), -(logps.exp() * logps).sum(dim=-1).numpy()


@pytest.mark.parametrize("how", [{}, {"read_prompts_once": False}, {"rollouts_per_round": 4}])
def test_logged_values_are_those_of_a_pass_over_the_same_tokens(
    make_trainer, generated, tiny_model, how
):
    trainer = make_trainer(
        8, max_steps=1, temperature=TEMPERATURE, top_p=0.8, rollout_log_tokens=1000, **how
    )
    trainer.train()
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)

    table = table_of(trainer)
    assert len(table) == len(generated) >= 8
    expected: dict[tuple[str, str], Any] = {}
    for prompt, completion in generated:
        texts = (tokenizer.decode(prompt), tokenizer.decode(completion, skip_special_tokens=True))
        expected[texts] = (completion, *by_a_pass(model, prompt, completion))

    for row in table.itertuples():
        tokens, logprobs, entropies = expected[row.prompt, row.completion]
        assert row.token_logprobs == pytest.approx(logprobs, abs=1e-4)
        assert row.token_entropies == pytest.approx(entropies, abs=1e-4)

        # The text between two ends is that of the token.
        ends = [0, *row.token_ends]
        for token, (first, last) in zip(tokens, pairwise(ends), strict=True):
            piece = tokenizer.decode([token], skip_special_tokens=True)
            assert row.completion[first:last] == piece


def test_the_first_tokens_alone_are_logged_and_training_is_the_same(make_trainer):
    plain = make_trainer(8, "plain")
    plain.train()
    logging = make_trainer(8, "logging", rollout_log_tokens=3)
    logging.train()
    assert equal(weights(plain), weights(logging))

    table = table_of(logging, step=2)
    assert {len(values) for values in table["token_logprobs"]} <= {1, 2, 3}
    assert 3 in {len(values) for values in table["token_entropies"]}
    assert [len(ends) for ends in table["token_ends"]] == [len(v) for v in table["token_logprobs"]]
    assert "token_logprobs" not in table_of(plain)


def test_a_rollout_that_was_generated_in_pieces_has_no_values(tiny_model):
    """As with tools: what a tool returned stands between two calls of `generate`."""
    model = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    told: list[str] = []
    values = TokenValues(1000, told.append)
    prompts = torch.tensor([[5, 6, 7]] * 3)
    with values.around(model):
        config = GenerationConfig(max_new_tokens=4, do_sample=True, pad_token_id=0)
        output = model.generate(
            input_ids=prompts, attention_mask=torch.ones_like(prompts), generation_config=config
        )
        model.generate(
            input_ids=prompts[:1],
            attention_mask=torch.ones_like(prompts[:1]),
            generation_config=config,
        )
    first, second, third = output[:, 3:].tolist()

    columns = {"completion_ids": [first, [*second, 9, 9], third[:2]], "logps": None}
    found = values.columns(columns)["token_logprobs"]
    assert found[1] is None
    assert found[0] == pytest.approx(by_a_pass(model, [5, 6, 7], first, 1.0)[0], abs=1e-4)
    assert found[2] == pytest.approx(by_a_pass(model, [5, 6, 7], third[:2], 1.0)[0], abs=1e-4)
    assert told == []


def test_of_a_rollout_with_tools_vllms_values_are_those_of_the_last_message():
    columns = {
        "completion_ids": [[1, 2, 3, 4], [5, 6]],
        "logps": [[-1.0, 0.0, -2.0, -3.0], [-4.0, -5.0]],
        "tool_mask": [[1, 0, 1, 1], [1, 1]],
    }
    found = TokenValues(3, print).columns(columns)
    assert [values.tolist() for values in found["token_logprobs"]] == [[-2.0, -3.0], [-4.0, -5.0]]
    assert found["token_entropies"] is None


def test_a_generate_of_the_users_that_samples_otherwise_is_told(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    trainer = agent_trainer(8, tmp_path / "run", **SCENARIOS["tools"], rollout_log_tokens=10)
    with caplog.at_level("WARNING", logger="podsrl.trl"):
        trainer.train()
    assert any("returns no log-probabilities" in message for message in caplog.messages)
    assert "token_logprobs" not in table_of(trainer)


@pytest.mark.skipif(
    Version(trl.__version__) < Version("1.12"),
    reason="the stand-in is for TRL 1.12 or later",
)
def test_what_vllm_says_of_its_tokens_is_logged(make_trainer, stand_in, generated):
    trainer = make_trainer(
        8, max_steps=1, use_vllm=True, vllm_mode="colocate", rollout_log_tokens=1000
    )
    trainer.train()
    engine = trainer.vllm_generation.llm
    expected = [engine.logprob_of[tuple(completion)] for _, completion in generated]
    table = table_of(trainer)
    for values, logprob in zip(table["token_logprobs"], expected, strict=True):
        assert values == pytest.approx([logprob] * len(values), abs=1e-6)
    assert "token_entropies" not in table


def test_an_engine_without_log_probabilities_is_told(make_trainer, caplog, monkeypatch):
    trainer = make_trainer(8, max_steps=1, rollout_log_tokens=10)
    model = trainer.model

    def generate_batch(prompts: list[Any], **kwargs: Any) -> Any:
        answers = [type("Answer", (), {"generated_tokens": [5, 6, 2]}) for _ in prompts]
        return dict(enumerate(answers))

    monkeypatch.setattr(model, "generate_batch", generate_batch, raising=False)
    trainer.use_transformers_continuous_batching = True
    trainer.continuous_batching_config = None
    with caplog.at_level("WARNING", logger="podsrl.trl"):
        trainer.train()
    [message] = [m for m in caplog.messages if "rollout_log_tokens" in m]
    assert "returns no log-probabilities" in message
    assert "token_logprobs" not in table_of(trainer)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rollout_log_tokens": -1}, "at least 0"),
        ({"rollout_log_images": True}, "at least 0"),
        ({"rollout_log_tokens": 5, "rollout_log": False}, "needs rollout_log=True"),
    ],
)
def test_a_wrong_bound_is_refused(given, said):
    with pytest.raises(InvalidInputError, match=said):
        PODSConfig("out", use_cpu=True, bf16=False, **given)


# ---- where tokens end ----------------------------------------------------------------------------


class Bytes:
    """A tokenizer whose tokens are bytes, so that most characters are several."""

    def encode(self, text: str, **kwargs: Any) -> list[int]:
        return list(text.encode())

    def batch_decode(self, rows: list[list[int]], **kwargs: Any) -> list[str]:
        return [bytes(row).decode(errors="replace") for row in rows]


class Words:
    """A tokenizer whose tokens are words, and whose text begins without a space."""

    words = ("a", "b", "c")

    def encode(self, text: str, **kwargs: Any) -> list[int]:
        return [self.words.index(word) for word in text.split()]

    def batch_decode(self, rows: list[list[int]], **kwargs: Any) -> list[str]:
        return [" ".join(self.words[token] for token in row) for row in rows]


@pytest.mark.parametrize("text", ["plain", "größer 漢字 🙂.", "bad \ufffd end", ""])
def test_the_tokens_of_a_text_end_where_their_characters_do(text):
    ids = Bytes().encode(text)
    ends = TokenEnds(Bytes()).of(text, ids)
    whole = [len(text[:n].encode()) for n in range(len(text) + 1)]
    # The last byte of a character ends it; the others end where it begins.
    assert ends == [
        max(n for n, size in enumerate(whole) if size <= at) for at in range(1, len(ids) + 1)
    ]


def test_a_space_before_a_word_is_of_its_token():
    assert TokenEnds(Words()).of(" a b c", [0, 1, 2]) == [2, 4, 6]


def test_of_another_text_no_ends_are_made_up():
    assert TokenEnds(Bytes()).of("other", Bytes().encode("text")) is None


# ---- images --------------------------------------------------------------------------------------


def test_images_of_rollouts_are_logged_small_and_no_more_than_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    trainer = agent_trainer(8, tmp_path / "run", **SCENARIOS["images"], rollout_log_images=1)
    trainer.train()
    table = table_of(trainer)
    for group, rows in table.groupby("group"):
        [address] = {one for row in rows["images"] for one in json.loads(row)}
        kind, _, data = address.partition(",")
        assert kind == "data:image/jpeg;base64"
        shade = Image.open(io.BytesIO(base64.b64decode(data))).getpixel((0, 0))
        expected = square(20 * group).getpixel((0, 0))
        assert shade == pytest.approx(expected, abs=4)  # of a JPEG


def test_a_large_image_is_made_small_and_an_address_is_not_asked_for():
    made = LoggedImages(limit=2)
    large = Image.new("RGB", (4000, 1000))
    [address] = json.loads(made.of(["https://example.org/a.png", large, square(3)]) or "[]")
    image = Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2])))
    assert image.size == (384, 96)
    assert made.of(None) is made.of([]) is None


def test_columns_of_tokens_and_images_are_those_that_the_log_knows():
    names = ["token_logprobs", "token_entropies", "token_ends", "images"]
    assert set(names) <= set(column_kinds(names))
