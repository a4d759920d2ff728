"""Each task through PODSTrainer: three steps of a tiny untrained model."""

import pytest

from podsgrading.sandbox import why_no_sandbox
from podslab.tasks import get_task

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch and transformers
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # of TRL
    pytest.mark.filterwarnings("ignore::UserWarning"),  # of torch: no pinned memory on a CPU
]
MATH = [{"question": "Solve x^2 = 2.", "answer": r"\pm\sqrt{2}"}]
ROWS = {
    "gsm8k": [{"question": "6 * 7?", "answer": "42"}],
    "math": MATH,
    "sciknoweval": [{"question": "Which?", "answer": "B", "choices": ["CC", "CCO"]}],
    "code": None,
    "reasoning_gym:chain_sum": None,
}


def make_trainer(task, rows, folder, **fields):
    import datasets

    from podsrl.trl import PODSConfig, PODSTrainer
    from support.agents import text_model

    model, tokenizer = text_model()
    data = datasets.Dataset.from_list([{**row, "prompt": task.prompt(row)} for row in rows * 4])
    settings = {"gradient_accumulation_steps": 1, **fields}
    config = PODSConfig(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        num_rollouts=8,
        num_generations=4,
        max_completion_length=16,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        bf16=False,
        save_strategy="no",
        **settings,
    )
    return PODSTrainer(model, task.rewards(), config, data, processing_class=tokenizer)


@pytest.mark.parametrize("name", list(ROWS))
def test_a_tiny_model_trains_three_steps_on_the_task(name, tmp_path):
    pytest.importorskip("trl")
    if name == "code" and (problem := why_no_sandbox()):
        pytest.skip(reason=f"code is graded in a sandbox: {problem}")
    if name.startswith("reasoning_gym"):
        extra = "the extra podsrl-lab[reasoning_gym] is not installed"
        pytest.importorskip("reasoning_gym", reason=extra)

    task = get_task(name)
    rows = ROWS[name] or ([task.example] if name == "code" else task.load("train")[:2])
    trainer = make_trainer(task, rows, tmp_path, max_steps=3)
    trainer.train()

    logged = [entry for entry in trainer.state.log_history if "rewards/correctness/mean" in entry]
    assert len(logged) == 3
    for entry in logged:
        assert entry["rewards/correctness/mean"] == 0.0  # noise is wrong, and graded
        assert entry["grading/unscorable"] == 0.0
        assert entry["grading/timeouts"] == 0.0
        assert entry["grading/seconds"] > 0.0


def test_all_rollouts_of_a_step_are_graded_at_once_so_that_every_core_has_work(tmp_path):
    pytest.importorskip("trl")
    task = get_task("gsm8k")
    sizes = []

    def grade_batch(completions, rows, grade=task.grade_batch):
        sizes.append(len(completions))
        return grade(completions, rows)

    task.grade_batch = grade_batch
    trainer = make_trainer(
        task, ROWS["gsm8k"], tmp_path, max_steps=2, gradient_accumulation_steps=2
    )
    trainer.train()
    # 2 prompts per step (4 kept rows x 2 micro-batches, 4 a prompt), 8 rollouts each
    assert sizes == [16, 16]
