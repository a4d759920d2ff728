"""The real `verl.trainer.main_ppo`, with Ray, for two steps of 4 prompts x 8 rollouts on a CPU.

cpu_bed has what verl lacks for that; the trainer under test is the installed one. All runs take
eight minutes on two free cores, and half an hour where others share one core.
"""

from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("verl", reason="verl is not installed; run `nox -s verl`")

import cpu_files
import cpu_run as run

import podsrl
from support.brute_force import highest_variance

pytestmark = pytest.mark.slow

M = 4
ROWS = run.PROMPTS * M
PODS = "trainer.v1.trainer_mode=pods_sync"

RUNS = {
    # the scripts have m = 16 of 64, by the paper's rule
    "half": [
        PODS,
        f"++trainer.v1.pods_sync.m={M}",
        "actor_rollout_ref.actor.checkpoint.save_contents=[model,optimizer,extra,hf_model]",
    ],
    "across": [PODS, "++trainer.v1.pods_sync.m=1", "++trainer.v1.pods_sync.rule=max_contrast"],
    "whole": [PODS, f"+trainer.v1.pods_sync.m={run.ROLLOUTS}"],
    "sync": ["trainer.v1.trainer_mode=sync"],
    "colocate": [
        "trainer.v1.trainer_mode=pods_colocate_async",
        f"+trainer.v1.pods_colocate_async.m={M}",
        "+trainer.v1.pods_colocate_async.baseline=group",
    ],
}
# several turns: verl's tool agent for every other prompt, a loop of one's own for the rest
RUNS["agents"] = [
    *RUNS["half"],
    "data.max_response_length=190",
    f"actor_rollout_ref.rollout.agent.agent_loop_config_path={run.HERE / 'agent_loops.yaml'}",
    "actor_rollout_ref.rollout.multi_turn.enable=True",
    "actor_rollout_ref.rollout.multi_turn.format=hermes",
    f"actor_rollout_ref.rollout.multi_turn.function_tool_path={run.HERE / 'cpu_bed/tools.py'}",
]
# a server apart from the trainer; two updates of two prompts each before it gets new weights
RUNS["separate"] = [
    "trainer.v1.trainer_mode=pods_separate_async",
    f"+trainer.v1.pods_separate_async.m={M}",
    "trainer.v1.separate_async.parameter_sync_step=2",
    "actor_rollout_ref.actor.ppo_mini_batch_size=2",
    "actor_rollout_ref.rollout.nnodes=1",
    "actor_rollout_ref.rollout.n_gpus_per_node=1",
    "actor_rollout_ref.rollout.checkpoint_engine.backend=ray_cpu",
    "actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module=cpu_bed.weights",
    "++ray_kwargs.ray_init.num_gpus=2",
]
# every other prompt's rewards are all equal
RUNS["spared"] = [
    PODS,
    f"+trainer.v1.pods_sync.m={M}",
    "reward.custom_reward_function.name=score_every_other",
    "actor_rollout_ref.actor.use_kl_loss=False",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
]
# the ranks have a part of the model and a server each, and meet by gloo
RUNS["ranks"] = [
    PODS,
    f"+trainer.v1.pods_sync.m={M}",
    "trainer.n_gpus_per_node=2",
    "++ray_kwargs.ray_init.num_gpus=2",
]
# GAE, with its critic
RUNS["critic"] = [
    PODS,
    f"+trainer.v1.pods_sync.m={M}",
    "algorithm.adv_estimator=gae",
    "critic.enable=True",
    "critic.strategy=fsdp2",
    "critic.ppo_micro_batch_size_per_gpu=4",
    "critic.forward_micro_batch_size_per_gpu=4",
    "critic.model.enable_gradient_checkpointing=False",
    "critic.model.use_remove_padding=False",
    "critic.fsdp.model_dtype=fp32",
    "critic.fsdp.use_torch_compile=False",
    "+critic.fsdp.mixed_precision.param_dtype=fp32",
]
#: "half" after its first step. verl loads what `save_contents` names, so it stands here again.
RESUMED = [*RUNS["half"], "trainer.resume_mode=auto"]
RUNS["unspared"] = [*RUNS["spared"], "+trainer.v1.pods_sync.skip_zero_advantage=false"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory, request):
    """The runs that tests ask for, from the same model and prompts, two at a time.

    One alone mostly waits for imports.
    """
    asked = {name for item in request.session.items for name in getattr(item, "fixturenames", ())}
    folder = tmp_path_factory.mktemp("verl")
    cpu_files.write_model(folder / "model")
    cpu_files.write_prompts(folder / "prompts.parquet", run.PROMPTS * run.STEPS)
    cpu_files.write_prompts(folder / "agents.parquet", run.PROMPTS * run.STEPS, agents=True)
    cpu_files.write_prompts(folder / "many.parquet", 8 * run.PROMPTS)
    of_model = {"critic": [f"critic.model.path={folder / 'model'}"]}
    prompts = {"agents": "agents.parquet", "separate": "many.parquet"}

    # the recipes for eight GPUs, with all that is large swapped
    contrib = run.SCRIPT.parents[1] / "contrib/verl-recipe/recipe/pods/run_gsm8k.sh"
    scripts = {"half": run.SCRIPT, "across": contrib}

    with ThreadPoolExecutor(max_workers=2) as pool:
        started = {
            name: pool.submit(
                run.train,
                folder,
                name,
                *overrides,
                *of_model.get(name, ()),
                script=scripts.get(name),
                prompts=prompts.get(name, "prompts.parquet"),
            )
            for name, overrides in RUNS.items()
            if name in asked
        }

        def resume():
            half = started["half"].result()
            return run.train(folder, "resumed", *RESUMED, script=scripts["half"], after=half)

        if "resumed" in asked:
            started["resumed"] = pool.submit(resume)
        yield started


@pytest.fixture
def half(runs):
    """PODS with m = 4 of n = 8."""
    return runs["half"].result()


@pytest.fixture
def across(runs):
    """PODS across the batch, a row per prompt on average."""
    return runs["across"].result()


@pytest.fixture
def whole(runs):
    """PODS with m = n."""
    return runs["whole"].result()


@pytest.fixture
def sync(runs):
    """verl's own."""
    return runs["sync"].result()


@pytest.fixture
def colocate(runs):
    """PODS in verl's colocated asynchronous mode, with the other baseline."""
    return runs["colocate"].result()


def passes(rows):
    """How often each model was run on how many rows."""
    return Counter((row["model"], row["pass"], row["rows"]) for row in rows)


EACH_STEP = [("actor", "forward"), ("reference", "forward"), ("actor", "update")]


def groups_of(rollouts):
    """The rows of a step, a list for each prompt."""
    groups = defaultdict(list)
    for row in rollouts:
        groups[row["input"]].append(row)
    return list(groups.values())


def column(rows, name):
    return [row[name] for row in rows]


def test_old_log_probs_reference_and_update_see_the_kept_rows_and_no_padding(half):
    assert passes(half.rows) == {(*stage, ROWS): run.STEPS for stage in EACH_STEP}
    # a row of padding has no token that is trained
    assert all(min(row["trained_tokens"]) > 0 for row in half.rows)
    assert [step["pods/padding_rows"] for step in half.metrics] == [0, 0]


def test_the_kept_rollouts_have_the_largest_variance_of_all_subsets(half):
    for rollouts in half.rollouts:
        assert len(rollouts) == run.PROMPTS * run.ROLLOUTS  # all n are written, kept or not
        for group in groups_of(rollouts):
            scores = [row["score"] for row in group]
            kept = [row["score"] for row in group if row["kept"]]
            assert len(kept) == M
            assert np.var(kept) == pytest.approx(highest_variance(scores, M), abs=1e-6)


def test_across_the_batch_the_update_sees_a_row_per_prompt_where_they_differ_most(across):
    assert passes(across.rows) == {(*stage, run.PROMPTS): run.STEPS for stage in EACH_STEP}
    for rollouts in across.rollouts:
        groups = groups_of(rollouts)
        scores = np.array([column(group, "score") for group in groups])
        kept = np.array([column(group, "kept") for group in groups])

        best = podsrl.downsample_batch(scores, run.PROMPTS)
        assert kept.sum() == run.PROMPTS
        assert deviations(scores, kept) == pytest.approx(deviations(scores, best), abs=1e-6)
        assert deviations(scores, best) > 0

    said = "method custom: selected 1 of 8 on average in 4 groups; the update sees 4 rows"
    assert across.log.count(said) == 1


def deviations(scores, kept):
    """What is maximised across the batch."""
    of_group = [scores[i][kept[i]] for i in range(len(scores)) if kept[i].any()]
    return sum(np.sqrt(((group - group.mean()) ** 2).sum()) for group in of_group)


def test_dropped_rows_leave_the_queue_at_once_and_the_others_after_the_step(half):
    for held, rollouts in zip(half.queue, half.rollouts, strict=True):
        assert held["keys"] == sorted(row["uid"] for row in rollouts if row["kept"])


def test_the_first_step_says_what_the_update_sees(half):
    said = "pods_sync: method pods: selected 4 of 8 in 4 groups; the update sees 16 rows"
    assert half.log.count(said) == 1


def test_verls_own_metrics_describe_all_n_rollouts(half, sync):
    """Both runs generate the same in the first step, so verl must report the same of it."""
    of_rollouts = ("critic/score/", "critic/rewards/", "response", "prompt_length", "num_turns")
    theirs = sync.metrics[0]
    ours = half.metrics[0]
    expected = {name: theirs[name] for name in theirs if name.startswith(of_rollouts)}
    assert len(expected) > 20
    assert {name: ours[name] for name in expected} == pytest.approx(expected)

    kept = [row["score"] for row in half.rollouts[0] if row["kept"]]
    assert ours["pods/kept_reward"] == pytest.approx(np.mean(kept))
    assert ours["pods/kept_reward"] != pytest.approx(ours["critic/score/mean"])
    assert ours["pods/rollouts"] == 32
    assert ours["pods/kept_rollouts"] == 16
    tokens = ours["pods/kept_tokens"] + ours["pods/dropped_tokens"]
    assert tokens == pytest.approx(
        32 * (theirs["prompt_length/mean"] + theirs["response_length/mean"])
    )


def test_m_equal_to_n_is_verls_own_sync_from_the_same_seed(whole, sync):
    for ours, theirs in zip(whole.rollouts, sync.rollouts, strict=True):
        assert sorted((row["input"], row["output"], row["score"]) for row in ours) == sorted(
            (row["input"], row["output"], row["score"]) for row in theirs
        )
    assert passes(whole.rows) == passes(sync.rows)

    for name, weight in sync.weights.items():
        assert np.allclose(whole.weights[name], weight, rtol=0, atol=1e-6), name

    names = ("actor/grad_norm", "actor/kl_loss", "actor/entropy", "critic/advantages/max")
    for ours, theirs in zip(whole.metrics, sync.metrics, strict=True):
        assert {name: ours[name] for name in names} == pytest.approx(
            {name: theirs[name] for name in names}, abs=1e-5
        )


def test_the_update_moves_the_weights_and_differently_with_half_of_the_rollouts(half, sync):
    """Else the test above would compare weights that nothing changes."""
    moved = [np.abs(half.weights[name] - sync.weights[name]).max() for name in sync.weights]
    assert max(moved) > 1e-3


def test_the_colocated_asynchronous_mode_trains_the_kept_rows_only(colocate):
    assert passes(colocate.rows) == {(*stage, ROWS): run.STEPS for stage in EACH_STEP}
    assert (
        "pods_colocate_async: method custom: selected 4 of 8 in 4 groups; the update sees 16"
        in colocate.log
    )
    for rollouts in colocate.rollouts:
        assert sum(row["kept"] for row in rollouts) == ROWS


@pytest.fixture
def agents(runs):
    """PODS with m = 4 of n = 8, several turns."""
    return runs["agents"].result()


@pytest.fixture
def separate(runs):
    """PODS with m = 4 of n = 8 and a server apart."""
    return runs["separate"].result()


def sessions(rollouts):
    """Rows of each rollout by prompt: {input: {session: [rows]}}."""
    found = defaultdict(lambda: defaultdict(list))
    for row in rollouts:
        _, session, _ = row["uid"].rsplit("_", 2)
        found[row["input"]][session].append(row)
    return found


def assert_largest_variance(by_session):
    """m rollouts are kept, each whole, and their last rows' scores vary most."""
    assert len(by_session) == run.ROLLOUTS
    for rows in by_session.values():
        assert len({row["kept"] for row in rows}) == 1

    scores = [rows[-1]["score"] for rows in by_session.values()]
    kept = [rows[-1]["score"] for rows in by_session.values() if rows[-1]["kept"]]
    assert len(kept) == M
    assert np.var(kept) == pytest.approx(highest_variance(scores, M), abs=1e-6)


def test_agents_of_several_turns_are_selected_by_the_reward_of_the_whole_trajectory(agents):
    turns = set()
    for rollouts in agents.rollouts:
        groups = sessions(rollouts)
        assert len(groups) == run.PROMPTS
        for prompt, by_session in groups.items():
            assert_largest_variance(by_session)
            rows = {len(rows) for rows in by_session.values()}
            assert rows == ({1} if "double" in prompt else {2})
            if "double" in prompt:
                turns |= {rows[0]["output"].count("<tool_call>") for rows in by_session.values()}
    assert turns == {0, 1, 2}
    assert [step["training/num_turns/max"] for step in agents.metrics] == [6, 6]


def test_of_agents_only_the_kept_rollouts_rows_are_trained_and_only_the_models_own_tokens(agents):
    # 2 prompts x 4 rollouts of one row and 2 x 4 of two, and verl's padding to two mini-batches
    forwards = {(*stage, 32): run.STEPS for stage in EACH_STEP[:2]}
    assert passes(agents.rows) == forwards | {("actor", "update", 16): 2 * run.STEPS}
    assert [step["pods/padding_rows"] for step in agents.metrics] == [8, 8]

    for step, rollouts in zip(agents.queue, agents.rollouts, strict=True):
        held = [key for key in step["keys"] if not key.startswith("pad")]
        kept = sorted(row["uid"] for row in rollouts if row["kept"])
        assert [key for key in held if key in kept] == kept
        assert not {row["uid"] for row in rollouts if not row["kept"]} & set(held)

    # a call has 61 tokens, the answer at most 8; "again" and what the tool says are not trained
    assert max(max(row["trained_tokens"]) for row in agents.rows) <= 2 * 61 + 8


def test_in_the_separate_mode_each_update_sees_kept_rows_of_complete_groups(separate):
    """Two mini-batches of two prompts a step; its metrics and its file are of both."""
    updates = [row for row in separate.rows if (row["model"], row["pass"]) == ("actor", "update")]
    assert [row["rows"] for row in updates] == [2 * M] * 2 * run.STEPS
    assert all(min(row["trained_tokens"]) > 0 for row in updates)
    for rollouts, metrics in zip(separate.rollouts, separate.metrics, strict=True):
        groups = sessions(rollouts)
        assert len(groups) == run.PROMPTS
        for by_session in groups.values():
            assert_largest_variance(by_session)

        assert metrics["pods/rollouts"] == run.PROMPTS * run.ROLLOUTS
        assert metrics["pods/kept_rollouts"] == run.PROMPTS * M
        kept = [row["score"] for row in rollouts if row["kept"]]
        assert metrics["pods/kept_reward"] == pytest.approx(np.mean(kept))
        scores = [row["score"] for row in rollouts]
        assert metrics["critic/score/mean"] == pytest.approx(np.mean(scores))

    said = "pods_separate_async: method pods: selected 4 of 8 in 2 groups; the update sees 8 rows"
    assert separate.log.count(said) == 1


@pytest.fixture
def spared(runs):
    """PODS with m = 4 of n = 8, where half of the prompts teach nothing."""
    return runs["spared"].result()


@pytest.fixture
def unspared(runs):
    """The same with a pass over every row."""
    return runs["unspared"].result()


def test_rows_of_advantage_0_never_enter_the_model(spared, unspared):
    stages = [("actor", "forward"), ("actor", "update")]
    assert passes(unspared.rows) == {(*stage, ROWS): run.STEPS for stage in stages}

    updates = [row["rows"] for row in spared.rows if row["pass"] == "update"]
    forwards = [row["rows"] for row in spared.rows if row["pass"] == "forward"]
    assert updates == forwards

    for step, rollouts in enumerate(spared.rollouts):
        kept = defaultdict(list)
        for row in rollouts:
            if row["kept"]:
                kept[row["input"]].append(row["score"])
        teach = 0
        for scores in kept.values():
            teach += sum(score != np.mean(scores) for score in scores)

        assert 0 < teach <= 8
        assert updates[step] == teach
        assert spared.metrics[step]["pods/spared_rows"] == ROWS - teach
        assert spared.metrics[step]["pods/padding_rows"] == 0
    assert "the update sees 16 rows; rows with advantage 0 are skipped" in spared.log
    assert "every row has a pass (skip_zero_advantage=false)" in unspared.log


def answers(rollouts):
    """Which answers were kept and which were not, in an order of their own."""
    return sorted((row["input"], row["output"], row["score"], row["kept"]) for row in rollouts)


def assert_same_weights(ours, theirs):
    for name, weight in theirs.weights.items():
        difference = np.abs(ours.weights[name] - weight).max()
        assert difference <= 1e-6, f"{name} differs by up to {difference:.2e}"


def test_the_weights_are_the_same_with_and_without_these_passes(spared, unspared):
    for ours, theirs in zip(spared.rollouts, unspared.rollouts, strict=True):
        assert answers(ours) == answers(theirs)  # else the weights differ for another reason
    assert_same_weights(spared, unspared)
    names = ("actor/pg_loss", "actor/grad_norm", "critic/score/mean", "pods/kept_reward")
    names += tuple(f"critic/advantages/{statistic}" for statistic in ("mean", "max", "min"))
    for ours, theirs in zip(spared.metrics, unspared.metrics, strict=True):
        assert {name: ours[name] for name in names} == pytest.approx(
            {name: theirs[name] for name in names}, abs=1e-5
        )
        assert theirs["actor/grad_norm"] > 1e-3  # else equal weights would say nothing


@pytest.fixture
def ranks(runs):
    """PODS with m = 4 of n = 8 on two ranks."""
    return runs["ranks"].result()


def test_two_ranks_share_the_kept_rows_and_learn_what_one_does(ranks, half):
    of_rank = {(*stage, ROWS // 2): 2 * run.STEPS for stage in EACH_STEP}
    assert passes(ranks.rows) == of_rank
    for ours, theirs in zip(ranks.rollouts, half.rollouts, strict=True):
        assert answers(ours) == answers(theirs)
    assert_same_weights(ranks, half)
    assert [step["pods/padding_rows"] for step in ranks.metrics] == [0, 0]


@pytest.fixture
def resumed(runs):
    """The second step of PODS with m = 4 of n = 8, in a process of its own."""
    return runs["resumed"].result()


def test_a_resumed_run_repeats_rollouts_kept_rows_and_weights(resumed, half):
    assert [step["training/global_step"] for step in resumed.metrics] == [2]
    assert answers(resumed.rollouts[0]) == answers(half.rollouts[1])
    assert answers(half.rollouts[0]) != answers(half.rollouts[1])
    assert_same_weights(resumed, half)


@pytest.fixture
def critic(runs):
    """PODS with m = 4 of n = 8, with GAE."""
    return runs["critic"].result()


def test_the_critic_sees_the_kept_rows_and_learns_their_returns(critic, half):
    stages = [*EACH_STEP, ("critic", "forward"), ("critic", "update")]
    assert passes(critic.rows) == {(*stage, ROWS): run.STEPS for stage in stages}
    assert answers(critic.rollouts[0]) == answers(half.rollouts[0])  # of the same weights

    kept = [row["score"] for row in critic.rollouts[0] if row["kept"]]
    assert critic.metrics[0]["critic/returns/max"] == pytest.approx(max(kept), abs=1e-5)
    assert critic.metrics[0]["critic/grad_norm"] > 0
    # every token has an advantage of its own, so no row is without
    assert [step["pods/zero_advantage_rows"] for step in critic.metrics] == [0, 0]
    assert "every row has a pass (adv_estimator=gae)" in critic.log
