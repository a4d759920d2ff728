"""A stand-in for Tinker's service: a model of pairs of tokens, behind its client's names.

It takes and gives the real types of `tinker`, and counts what would be billed.
"""

from types import SimpleNamespace

import tinker
import torch


class DoneFuture:
    """What a call of the client returns: it may be awaited, or asked for its result."""

    def __init__(self, value):
        self.value = value

    def result(self, timeout=None):
        return self.value

    def __await__(self):
        yield from ()
        return self.value


class Model(torch.nn.Module):
    """The next token by the one before it, among the tokens that may be sampled."""

    def __init__(self, vocabulary, allowed):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(vocabulary, vocabulary))
        self.closed = torch.full((vocabulary,), -1e9)
        self.closed[allowed] = 0.0

    def forward(self, tokens):
        return (self.logits[tokens] + self.closed).log_softmax(-1)


class Service:
    """`tinker.ServiceClient`, its training client and its sampling client in one."""

    def __init__(self, vocabulary, allowed, seed=0):
        self.model = Model(vocabulary, allowed)
        self.draw = torch.Generator().manual_seed(seed)
        self.trained_rows = []  # of each call of forward_backward
        self.losses = []

    def create_lora_training_client(self, base_model, rank):
        return DoneFuture(self)

    def save_weights_and_get_sampling_client(self):
        return DoneFuture(self)

    @torch.no_grad()
    def sample(self, prompt, num_samples, sampling_params):
        assert num_samples == 1
        logps = self.model(torch.tensor(prompt.to_ints()[-1]))
        token = int(torch.multinomial(logps.exp(), 1, generator=self.draw))
        sequence = tinker.SampledSequence(
            stop_reason="length",
            sequence_id=f"sequence-{len(self.trained_rows)}-{token}",
            _tokens_list=[token],
            _logprobs_list=[float(logps[token])],
        )
        return DoneFuture(tinker.SampleResponse(sequences=[sequence]))

    def forward_backward(self, data, loss_fn):
        """Importance sampling: minus the sum of ratio times advantage over all tokens."""
        assert loss_fn == "importance_sampling"

        total = torch.zeros(())
        for datum in data:
            assert set(datum.loss_fn_inputs) == {"target_tokens", "logprobs", "advantages"}
            inputs = {name: value.to_torch() for name, value in datum.loss_fn_inputs.items()}

            logps = self.model(torch.tensor(datum.model_input.to_ints()))
            of_targets = logps.gather(-1, inputs["target_tokens"][:, None])[:, 0]
            ratio = (of_targets - inputs["logprobs"]).exp()
            # a ratio that is infinite has no part where the advantage is 0
            gains = torch.where(inputs["advantages"] != 0, ratio * inputs["advantages"], 0.0)
            total = total - gains.sum()

        total.backward()
        self.trained_rows.append(len(data))
        self.losses.append(total.item())
        return DoneFuture(SimpleNamespace(metrics={}))

    def optim_step(self, adam_params):
        with torch.no_grad():
            self.model.logits -= adam_params.learning_rate * self.model.logits.grad
        self.model.logits.grad = None
        return DoneFuture(tinker.OptimStepResponse())
