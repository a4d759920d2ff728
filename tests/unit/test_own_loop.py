"""The loop of docs/own-loop.md, run as it stands there."""

import re
from pathlib import Path

import pytest
import torch

import podsrl
from podsrl.selection import select_groups
from support.host_suite import REWARDS, HostSuite, SeenStep

PAGE = Path(__file__).parents[2] / "docs" / "own-loop.md"
[STEP, RUN, LOOP] = re.findall(
    r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
)


def run_loop(selection, batches, policy, generate, score, log_probs, optimizer):
    """The page's code with these parts; returns its names, and what it logged."""
    logged = []
    lines = [line for line in LOOP.splitlines() if not line.startswith("selection = ")]
    names = {
        "selection": selection,
        "batches": batches,
        "policy": policy,
        "generate": generate,
        "score": score,
        "log_probs": log_probs,
        "optimizer": optimizer,
        "log": lambda metrics, step: logged.append(metrics),
    }
    exec("\n".join(lines), names)
    return names, logged


def test_a_whole_step_in_plain_pytorch_trains_a_real_model(tiny_model):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    names = {}
    exec(STEP, names)
    torch.manual_seed(0)
    policy = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    optimizer = torch.optim.SGD(policy.parameters(), lr=1.0)
    before = [weight.detach().clone() for weight in policy.parameters()]

    def first_letter(prompt, text):
        return float(sum(map(ord, text)) % 2)

    rows = names["step_of_pods"](policy, tokenizer, optimizer, ["1+2", "3+4"], first_letter)

    # Two prompts with four rows each; the advantages of a prompt add up to 0.
    assert len(rows) == 8
    advantages = torch.stack([advantage for _, _, advantage in rows]).view(2, 4)
    assert torch.allclose(advantages.sum(dim=1), torch.zeros(2), atol=1e-5)
    assert (advantages != 0).any()
    assert any(not torch.equal(a, b) for a, b in zip(before, policy.parameters(), strict=True))


def test_the_step_runs_on_the_model_and_the_reward_of_the_page(tiny_model, monkeypatch, capsys):
    tiny = pytest.importorskip("podslab.models.tiny")
    monkeypatch.setattr(tiny, "get_model", lambda: tiny_model)
    assert RUN.count("range(30)") == 1

    exec(STEP + RUN.replace("range(30)", "range(2)"), {})

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1"]
    assert all(0 <= float(line.split()[1]) <= 1 for line in lines)


def test_it_takes_twenty_lines():
    lines = [line for line in LOOP.splitlines() if line.strip()]
    assert len(lines) <= 20
    assert "selection = Selection(num_rollouts=16, num_kept=4)" in LOOP


class TestOwnLoop(HostSuite):
    spares_passes = True
    eps = 1e-4

    def step(self, rewards, m, rule="max_variance", baseline="kept"):
        weight = torch.zeros(1, requires_grad=True)
        passes = []

        def log_probs(policy, prompt, rollout):
            passes.append((prompt, rollout))
            return policy.repeat(3)

        n = len(rewards[0])
        names, logged = run_loop(
            selection=podsrl.Selection(n, m, rule, baseline),
            batches=[range(len(rewards))],
            policy=weight,
            generate=lambda policy, prompt, number: range(number),
            score=lambda prompt, rollout: rewards[prompt][rollout],
            log_probs=log_probs,
            optimizer=torch.optim.SGD([weight], lr=1.0),
        )
        selected = names["selected"]
        return SeenStep(rows_out=selected.of_kept, passes=len(passes), logged=logged[0])


class Bandit(torch.nn.Module):
    """For each of four prompts a distribution over eight answers of one token."""

    def __init__(self):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(4, 8))


def train_bandit(batches):
    draw = torch.Generator().manual_seed(0)
    policy = Bandit()

    def generate(policy, prompt, number):
        shares = policy.logits[prompt].detach().softmax(-1)
        return torch.multinomial(shares, number, replacement=True, generator=draw).tolist()

    def log_probs(policy, prompt, answer):
        return policy.logits[prompt].log_softmax(-1)[answer].unsqueeze(0)

    run_loop(
        selection=podsrl.Selection(16, 4),
        batches=batches,
        policy=policy,
        generate=generate,
        score=lambda prompt, answer: float(answer == prompt),
        log_probs=log_probs,
        optimizer=torch.optim.SGD(policy.parameters(), lr=4.0),
    )
    return policy


def test_the_loop_learns_to_give_the_right_answers(capsys):
    policy = train_bandit([range(4)] * 60)
    right = policy.logits.detach().softmax(-1)[range(4), range(4)]
    assert (right > 0.9).all()  # 1/8 before
    said = "method pods: selected 4 of 16 in 4 groups; the update sees 16 rows"
    assert capsys.readouterr().out.count(said) == 1


def test_rows_without_gradient_change_nothing_but_the_number_of_passes():
    selected = select_groups(podsrl.Selection(8, 4), REWARDS)
    logits = torch.nn.Parameter(torch.linspace(0, 1, 32).reshape(4, 8))
    gradients = {}
    for name, groups in (("every", selected.of_kept), ("with_gradient", selected.with_gradient)):
        logits.grad = None
        for prompt, group in enumerate(groups):
            for place, advantage in group.items():
                (-advantage * logits[prompt].log_softmax(-1)[place] / 16).backward()
        gradients[name] = logits.grad
    torch.testing.assert_close(gradients["every"], gradients["with_gradient"])
    assert sum(map(len, selected.with_gradient)) < 16


def test_groups_may_differ_in_size_and_tokens_are_counted_where_they_are_known():
    selection = podsrl.Selection(4, 2)
    selected = select_groups(selection, [[0.0, 1.0, 0.5], [0.25]], step=3)
    assert selected.kept == [[0, 1], [0]]
    metrics = selected.metrics(tokens=[[10, 20, 40], [80]])
    assert metrics["pods/kept_tokens"] == 110
    assert metrics["pods/dropped_tokens"] == 40
    assert metrics["pods/rollouts"] == 4
    assert selected.with_gradient[1] == {}
    assert "pods/kept_tokens" not in selected.metrics()


def test_the_parts_of_a_reward_select():
    selection = podsrl.Selection(4, 2, selection_weights={"right": 1.0}, seed=0)
    parts = [[{"right": value} for value in (1.0, 1.0, 0.0, 1.0)]]
    selected = select_groups(selection, [[0.0, 0.3, 0.9, 0.1]], parts)
    assert 2 in selected.kept[0]
    assert selected.metrics()["pods/correlation/right"] < 0  # the wrong one has the highest reward
    with pytest.raises(podsrl.PodsError, match="right"):
        select_groups(selection, [[0.0, 0.3]], [[{}, {}]])


def test_a_rollout_that_the_loss_leaves_out_is_kept_last_and_has_no_pass():
    selection = podsrl.Selection(4, 2)
    masked = [[True, False, False, False]]
    selected = select_groups(selection, [[1.0, 0.0, 1.0, 0.0]], masked=masked)
    assert selected.kept == [[1, 2]]

    few = select_groups(selection, [[1.0, 0.0]], masked=[[True, False]])
    assert few.kept == [[0, 1]]
    assert list(few.with_gradient[0]) == [1]
    assert few.metrics()["pods/zero_advantage_rows"] == 1


@pytest.mark.parametrize("rule", ["max_variance", "max_contrast"])
@pytest.mark.parametrize("groups", [[], [[], []]])
def test_of_a_batch_without_rollouts_nothing_is_kept(groups, rule):
    selected = select_groups(podsrl.Selection(4, 2, rule=rule), groups)
    assert selected.kept == selected.advantages == groups
    assert selected.with_gradient == [{} for _ in groups]
    assert selected.metrics()["pods/rollouts"] == 0.0
