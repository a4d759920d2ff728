"""An engine and a server in vLLM's place that write down what TRL asks them for.

TRL's own generation and client code runs on them: only vLLM's classes, the HTTP server and the
NCCL transfer of weights are stand-ins.
"""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from trl.generation import vllm_client, vllm_generation


class Sampler:
    """Random completions, each with log-probs that no other has."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self.logprob_of: dict[tuple[int, ...], float] = {}

    def complete(self, prompt: list[int]) -> tuple[list[int], float]:
        token_ids = self.rng.choices(range(6, 60), k=self.rng.randint(8, 12))
        logprob = -1 - len(self.logprob_of) / 1000
        self.logprob_of[tuple(token_ids)] = logprob
        return token_ids, logprob


class Engine(Sampler):
    """Stands in for `vllm.LLM`.

    Asleep at level 2 it has no weights, as vLLM's has none: it refuses to generate until it is
    awake and its weights were loaded.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(options["seed"])
        self.options = options
        self.calls: list[list[tuple[list[int], int]]] = []  # prompt and n of each request
        self.order: list[str] = []  # what was asked of it; several in a row once
        self.asleep: set[str] = set()
        self.has_weights = True
        model = SimpleNamespace(load_weights=self.load_weights)
        runner = SimpleNamespace(model_runner=SimpleNamespace(model=model))
        executor = SimpleNamespace(driver_worker=runner)
        self.llm_engine = SimpleNamespace(model_executor=executor)

    def reset_prefix_cache(self) -> None:
        pass

    def note(self, what: str) -> None:
        if self.order[-1:] != [what]:
            self.order.append(what)

    def wake_up(self, tags: list[str]) -> None:
        assert self.asleep.issuperset(tags), f"{tags} do not sleep"
        self.asleep -= set(tags)
        self.note(f"wake up {', '.join(tags)}")

    def sleep(self, level: int) -> None:
        assert level == 2
        assert not self.asleep
        self.asleep = {"weights", "kv_cache"}
        self.has_weights = False
        self.note("sleep")

    def load_weights(self, weights: Any) -> None:
        assert "weights" not in self.asleep
        self.has_weights = True
        self.note("load weights")

    def generate(self, prompts: list[Any], sampling_params: Any, use_tqdm: bool) -> list[Any]:
        assert self.has_weights
        assert not self.asleep
        self.note("generate")
        each = sampling_params if isinstance(sampling_params, list) else None
        params = each or [sampling_params] * len(prompts)
        requests = zip(prompts, params, strict=True)
        self.calls.append([(prompt["prompt_token_ids"], one.n) for prompt, one in requests])
        return [self.answer(p, one.n) for p, one in zip(prompts, params, strict=True)]

    def answer(self, prompt: Any, n: int) -> Any:
        ids = prompt["prompt_token_ids"]
        return SimpleNamespace(prompt_token_ids=ids, outputs=[self._output(ids) for _ in range(n)])

    def _output(self, prompt: list[int]) -> Any:
        token_ids, logprob = self.complete(prompt)
        item = SimpleNamespace(rank=1, logprob=logprob)
        return SimpleNamespace(token_ids=token_ids, logprobs=[{t: item} for t in token_ids])


class _Listener(ThreadingHTTPServer):
    request_queue_size = 64  # of those that TRL's worker sends at once


class Server(Sampler):
    """Stands in for `vllm serve`, on a free port of this machine."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[dict[str, Any]] = []
        self.models = ["tiny"]
        self.http = _Listener(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer to a GET (an empty body) or a POST."""
        if path == "/v1/models":
            return {"data": [{"id": name, "max_model_len": 1024} for name in self.models]}
        if path.startswith("/server_info"):
            return {"vllm_config": {"model_config": {"logprobs_mode": "processed_logprobs"}}}
        if path == "/v1/completions":
            self.requests.append(body)
            given = body["prompt"]  # one, or several
            several = [given] if isinstance(given[0], int) else given
            prompts = [p for p in several for _ in range(body["n"])]
            return {"choices": [self._choice(p, body["max_tokens"]) for p in prompts]}
        return {"success": True}  # /health, /reset_prefix_cache

    def answer_to(self, prompt: list[int], most: int) -> tuple[list[int], list[float]]:
        """At most that many tokens, and their log-probs."""
        token_ids, logprob = self.complete(prompt)
        return token_ids, [logprob] * len(token_ids)

    def _choice(self, prompt: list[int], most: int) -> dict[str, Any]:
        token_ids, of_tokens = self.answer_to(prompt, most)
        logprobs = {
            "tokens": [f"token_id:{t}" for t in token_ids],
            "token_logprobs": of_tokens,
            "top_logprobs": [None] * len(token_ids),
        }
        return {"prompt_token_ids": prompt, "token_ids": token_ids, "logprobs": logprobs}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size) or "{}")
                answer = json.dumps(server.answer(self.path, body)).encode()
                self.send_response(200)
                self.send_header("Connection", "close")
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_GET

            def log_message(self, *args: Any) -> None:
                pass

        return Handler


class PolicyServer(Server):
    """Answers with samples of a model; it takes a trainer's new weights as a `weight_transfer`."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model.eval()
        self.updates = 0
        self._lock = Lock()

    @torch.no_grad()
    def answer_to(self, prompt: list[int], most: int) -> tuple[list[int], list[float]]:
        ids: list[int] = []
        logprobs: list[float] = []
        past = None
        with self._lock:
            while len(ids) < most and ids[-1:] != [self.model.config.eos_token_id]:
                read = torch.tensor([ids[-1:] or prompt])
                output = self.model(read, past_key_values=past, use_cache=True)
                past = output.past_key_values
                of_next = output.logits[0, -1].float().log_softmax(-1)
                ids.append(int(of_next.exp().multinomial(1)))
                logprobs.append(float(of_next[ids[-1]]))
        return ids, logprobs

    def send_weights(self, iterator: Iterator[tuple[str, torch.Tensor]]) -> None:
        with self._lock, torch.no_grad():
            mine = dict(self.model.named_parameters())
            for name, value in iterator:
                mine[name].copy_(value)
        self.updates += 1

    def init_weight_transfer(self) -> None:
        pass

    pause = resume = destroy = init_weight_transfer


@contextmanager
def serving(server: Any = None) -> Iterator[Any]:
    """A running `Server`."""
    server = server or Server()
    thread = Thread(target=server.http.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        thread.join()
        server.http.server_close()


def install(patch: pytest.MonkeyPatch) -> None:
    """Make TRL take the stand-ins, whether vLLM is installed or not."""
    for module in (vllm_generation, vllm_client):
        patch.setattr(module, "is_vllm_available", lambda **kwargs: True)
    patch.setattr(vllm_generation, "LLM", Engine, raising=False)
    patch.setattr(vllm_generation, "SamplingParams", SimpleNamespace, raising=False)
    client = vllm_client.VLLMClient
    patch.setattr(client, "init_communicator", lambda self, device: None)
    update = (
        "update_named_params" if hasattr(client, "update_named_params") else "update_named_param"
    )
    patch.setattr(client, update, lambda self, *parameters: None)
