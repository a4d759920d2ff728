"""`enable_input_require_grads` leaves one hook on the embeddings, however often it is called."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def tiny_model():
    config = LlamaConfig(
        vocab_size=16,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    return LlamaForCausalLM(config)


def hooks_of(model):
    return len(model.get_input_embeddings()._forward_hooks)


def test_enabling_input_grads_twice_leaves_one_hook():
    model = tiny_model()
    model.enable_input_require_grads()
    model.enable_input_require_grads()
    assert hooks_of(model) == 1


def test_switching_checkpointing_off_and_on_leaves_one_hook():
    model = tiny_model()
    for _ in range(3):
        model.activation_checkpointing_enable()
        model.activation_checkpointing_disable()
    model.activation_checkpointing_enable()
    assert hooks_of(model) == 1


def test_the_hook_that_is_left_can_be_removed():
    model = tiny_model()
    for _ in range(3):
        model.enable_input_require_grads()
    model.disable_input_require_grads()
    assert hooks_of(model) == 0


def test_inputs_still_require_grads_after_it_was_called_twice():
    model = tiny_model().requires_grad_(False)
    model.enable_input_require_grads()
    model.enable_input_require_grads()
    assert model.get_input_embeddings()(torch.tensor([[1, 2]])).requires_grad


def test_a_hook_of_the_users_own_stays():
    model = tiny_model()
    model.get_input_embeddings().register_forward_hook(lambda module, args, output: None)
    model.enable_input_require_grads()
    model.enable_input_require_grads()
    assert hooks_of(model) == 2
