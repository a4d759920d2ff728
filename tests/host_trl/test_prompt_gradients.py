"""The gradients that benchmarks/evidence/variances.py compares are those of TRL's own loss."""

import torch
from benchmarks.evidence.variances import half_gradient


def test_the_gradient_of_half_a_prompt_is_mean_of_wrong_minus_mean_of_right(make_trainer):
    trainer = make_trainer(16, num_generations=8)
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    row = trainer.train_dataset[0]
    output = trainer._generate_and_score_completions([row] * 8)
    right = output["advantages"] > 0
    half = torch.tensor([0, 2, 3, 5, 6])
    right[half[:2]], right[half[2:]] = True, False  # two against three
    ours = half_gradient(trainer, output, half, right)

    ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)[half]
    mask = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)[half]
    length = output["completion_ids"].size(1)
    trainer.model.zero_grad()
    logits = trainer.model(input_ids=ids, attention_mask=mask).logits[:, -length - 1 : -1]
    chances = (logits / trainer.temperature).log_softmax(-1)
    of_tokens = chances.gather(2, ids[:, -length:, None]).squeeze(2)
    seen = output["completion_mask"][half]
    of_rows = (of_tokens * seen).sum(1) / seen.sum(1)
    (of_rows[2:].mean() - of_rows[:2].mean()).backward()
    theirs = torch.cat(
        [p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None]
    ).numpy()
    assert len(ours) == len(theirs)
    assert abs(ours - theirs).max() < 1e-5 * abs(theirs).max()
