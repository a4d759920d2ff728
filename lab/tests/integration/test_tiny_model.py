import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from podslab.tasks.arithmetic import Arithmetic


def test_the_warm_started_model_is_right_now_and_then_in_the_form_asked_for(tiny_model):
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    task = Arithmetic(min_columns=2, max_columns=2)
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
    assert sum(g.format for g in grades) / len(rows) > 0.9
    # (1 - 0.3)^2 = 0.49 if the working were perfect but for its slips
    assert 0.2 < sum(bool(g.answer) for g in grades) / len(rows) < 0.6
