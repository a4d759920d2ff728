import json
import random
import re
import unicodedata
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from podslab.models.cache import default_cache_dir
from podslab.models.tiny import SHIPPED, TinySettings, folder_name, get_model
from podslab.models.tiny.build import build, sloppy_example
from podslab.models.tiny.tokenizer import build_tokenizer
from podslab.tasks import get_task
from podslab.tasks.base import in_format
from podslab.tasks.sums import split_of, worked_sum
from podslab.training.shipped_models import COMPARISONS, settings_of
from podsrl.errors import InvalidInputError

SMALL = TinySettings(
    min_columns=1,
    max_columns=2,
    steps=3,
    batch_size=4,
    hidden_size=16,
    intermediate_size=16,
    layers=1,
    heads=2,
    key_value_heads=1,
)
TOKENIZER = build_tokenizer()


def weights(folder):
    """Copies: what from_pretrained loads is a view of the file."""
    state = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    return {name: tensor.clone() for name, tensor in state.items()}


def unexpected(steps):
    raise AssertionError("built again")


# ---- tokenizer ----------------------------------------------------------------------------------


@given(st.text())
def test_any_text_comes_back_from_the_tokenizer(text):
    # Qwen2's tokenizer brings text to the composed form first
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == unicodedata.normalize("NFC", text)


def test_a_tag_is_one_token_and_survives_skipping_the_special_ones():
    text = worked_sum(47, 85)
    ids = TOKENIZER.encode(text + TOKENIZER.eos_token)
    # 4 tags, "7+5=12", newline, "4+8+1=13", "132", end
    assert len(ids) == 4 + 6 + 1 + 8 + 3 + 1
    assert TOKENIZER.decode(ids, skip_special_tokens=True) == text


def test_the_chat_template_leaves_the_system_prompt_out_and_ends_the_question():
    task = get_task("arithmetic")
    prompt = task.prompt({"question": "47+85"})
    assert TOKENIZER.apply_chat_template(prompt, tokenize=False) == "47+85\n"
    answered = [*prompt, {"role": "assistant", "content": "132"}]
    assert TOKENIZER.apply_chat_template(answered, tokenize=False) == "47+85\n132<eos>"


# ---- warm start ---------------------------------------------------------------------------------


def test_sloppy_examples_are_of_the_train_split_and_wrong_as_often_as_the_noise_says():
    draw = random.Random(0)
    task = get_task("arithmetic")
    right = 0
    for _ in range(2000):
        question, working = sloppy_example(draw, 2, noise=0.3)
        a, b = map(int, question.split("+"))
        assert split_of(a, b) == "train"
        assert in_format(working)
        right += bool(task.grade(working, {"answer": str(a + b)}).answer)
    # right without a slip in either column: 0.7^2 = 0.49, standard error 0.011
    assert abs(right / 2000 - 0.49) < 0.045


def test_tags_are_left_out_as_often_as_asked_and_a_lenient_grader_still_finds_the_answer():
    draw = random.Random(0)
    task = get_task("arithmetic", mode="lenient")
    graded = []
    for _ in range(2000):
        question, working = sloppy_example(draw, 2, noise=0.0, form_noise=0.24)
        a, b = map(int, question.split("+"))
        graded.append(task.grade(working, {"answer": str(a + b)}))
    assert all(grade.answer for grade in graded)
    # all four tags are there: 0.76^4 = 0.334, standard error 0.011
    assert abs(sum(grade.format for grade in graded) / 2000 - 0.334) < 0.045


def test_no_noise_gives_true_working():
    question, working = sloppy_example(random.Random(0), 3, noise=0.0)
    assert working == worked_sum(*map(int, question.split("+")))


def test_the_warm_start_lowers_the_loss():
    def loss(settings):
        model, tokenizer = build(settings)
        text = "47+85\n" + worked_sum(47, 85) + tokenizer.eos_token
        ids = torch.tensor([tokenizer.encode(text)])
        with torch.no_grad():
            return float(model(input_ids=ids, labels=ids).loss)

    settings = replace(SMALL, batch_size=16, learning_rate=1e-2, warmup_steps=5)
    assert loss(replace(settings, steps=60)) < 0.7 * loss(replace(settings, steps=1))


def test_the_warm_started_model_is_right_now_and_then_in_the_form_asked_for(tiny_model):
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    task = get_task("arithmetic", min_columns=2, max_columns=2)
    rows = task.load("test")

    inputs = tokenizer.apply_chat_template(
        [task.prompt(row) for row in rows],
        add_generation_prompt=True,
        padding=True,
        return_tensors="pt",
        return_dict=True,
    )
    torch.manual_seed(0)
    output = model.generate(**inputs, do_sample=True, top_k=0, max_new_tokens=48)
    completions = tokenizer.batch_decode(
        output[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True
    )

    grades = task.grade_batch(completions, rows)
    assert sum(grade.format for grade in grades) / len(rows) > 0.9
    # (1 - 0.3)^2 = 0.49 if the working were perfect but for its slips
    assert 0.2 < sum(bool(grade.answer) for grade in grades) / len(rows) < 0.6


def test_building_leaves_the_global_random_state_as_it_was():
    torch.manual_seed(1)
    random.seed(1)
    expected = torch.rand(1), random.random()
    torch.manual_seed(1)
    random.seed(1)
    build(SMALL)
    assert (torch.rand(1), random.random()) == expected


# ---- cache --------------------------------------------------------------------------------------


def test_the_same_settings_give_the_same_weights_and_another_seed_others(tmp_path):
    first = weights(get_model(SMALL, tmp_path / "a"))
    again = weights(get_model(SMALL, tmp_path / "b"))
    other = weights(get_model(replace(SMALL, seed=1), tmp_path / "a"))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[n], other[n]) for n in first if n.endswith("_proj.weight"))


def test_a_model_is_built_once_and_then_found(tmp_path, capfd):
    seen = []

    def progress(steps):
        for step in steps:
            seen.append(step)
            yield step

    folder = get_model(SMALL, tmp_path, progress)
    assert seen == [0, 1, 2]
    assert get_model(SMALL, tmp_path, progress=unexpected) == folder
    manifest = json.loads((folder / "podsrl.json").read_text())
    assert TinySettings(**manifest["settings"]) == SMALL
    assert get_model(replace(SMALL, steps=1), tmp_path) != folder
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("damage", ["cut", "missing", "changed", "no manifest", "empty manifest"])
def test_a_damaged_model_is_built_again(tmp_path, damage):
    folder = get_model(SMALL, tmp_path)
    good = weights(folder)
    file = folder / "model.safetensors"

    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    elif damage == "missing":
        file.unlink()
    elif damage == "changed":
        (folder / "config.json").write_text("{}")
    else:
        manifest = folder / "podsrl.json"
        manifest.write_text("{}") if damage == "empty manifest" else manifest.unlink()

    assert get_model(SMALL, tmp_path) == folder
    rebuilt = weights(folder)
    assert all(torch.equal(good[name], rebuilt[name]) for name in good)


def test_a_build_that_is_interrupted_leaves_no_model_behind(tmp_path):
    def interrupted(steps):
        yield 0
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get_model(SMALL, tmp_path, interrupted)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    assert (get_model(SMALL, tmp_path) / "model.safetensors").is_file()


def build_in_another_process(cache_dir):
    return str(get_model(SMALL, cache_dir))


def test_two_processes_that_build_at_once_get_the_same_whole_model(tmp_path):
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        folders = list(pool.map(build_in_another_process, [tmp_path, tmp_path]))
    assert folders[0] == folders[1]
    assert get_model(SMALL, tmp_path, progress=unexpected) == Path(folders[0])
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [Path(folders[0]).name]


def test_the_cache_folder_is_the_users_and_can_be_moved(monkeypatch, tmp_path):
    monkeypatch.delenv("PODSRL_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache_dir() == tmp_path / "xdg" / "podsrl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_cache_dir() == Path.home() / ".cache" / "podsrl"
    monkeypatch.setenv("PODSRL_CACHE", str(tmp_path / "own"))
    assert default_cache_dir() == tmp_path / "own"
    assert get_model(SMALL).parent == tmp_path / "own"


def test_the_folder_is_an_ordinary_qwen2_model(tiny_model):
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    assert model.config.model_type == "qwen2"
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert tokenizer.padding_side == "left"
    assert tokenizer.get_vocab() == TOKENIZER.get_vocab()
    assert model.get_input_embeddings().num_embeddings == len(tokenizer)
    for text in (worked_sum(47, 85), "Größe: 1.5 m²\n\t— „ja“ 🎲"):
        assert tokenizer.encode(text) == TOKENIZER.encode(text)
        assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) == text


def test_the_default_model_has_about_a_million_parameters():
    model, _ = build(TinySettings(steps=1, batch_size=1))
    assert 0.7e6 < model.num_parameters() < 1.3e6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": 1.0}, "noise = 1.0"),
        ({"noise": -0.1}, "noise = -0.1"),
        ({"form_noise": 1.0}, "form_noise = 1.0"),
        ({"min_columns": 0}, "min_columns = 0"),
        ({"min_columns": 5}, "min_columns = 5, max_columns = 4"),
        ({"steps": 0}, "steps = 0"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"hidden_size": 100, "heads": 3}, "hidden_size = 100"),
        ({"heads": 4, "key_value_heads": 3}, "key_value_heads = 3"),
    ],
)
def test_settings_that_make_no_model_are_refused(change, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        TinySettings(**change)


def test_the_model_of_the_demo_comes_with_the_package():
    """Of today's sources: `python -m podslab.training.shipped_models` makes it anew."""
    for comparison in COMPARISONS:
        settings = settings_of(comparison)
        shipped = SHIPPED / folder_name(settings)
        assert shipped.is_dir(), (
            "a source that decides the model's name has changed: make the model anew, or, where"
            " its lessons are the same to the byte, rename its folder"
        )
        assert get_model(settings) == shipped
        assert json.loads((get_model(settings) / "podsrl.json").read_text())["settings"] == asdict(
            settings
        )
