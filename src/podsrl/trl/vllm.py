"""vLLM through TRL: one request per prompt for all its rollouts, and an engine with room for them.

TRL's own code drives the engine. What it hands to the engine is changed in few places only, each
of them pinned by a test: the size of a colocated engine, the requests of either mode, and in
rounds, when they are made.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count, groupby
from socket import gethostname
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from urllib.parse import urlparse

from accelerate import PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType, broadcast_object_list, gather_object
from trl.generation.vllm_client import VLLMClient
from trl.trainer import grpo_trainer

from podsrl.errors import RewardError

_REQUESTS = count()  # names of those to a colocated engine
MAX_POSTS = 64  # at once; TRL's client keeps as many connections to its server
_THIS_MACHINE = ("localhost", "127.0.0.1", "0.0.0.0", "::1")
MAX_NUM_BATCHED_TOKENS = 4096  # TRL's setting; vLLM refuses a max_num_seqs above it


@contextmanager
def sized_for_rollouts(num_rollouts: int, num_generations: int) -> Iterator[None]:
    """TRL's trainer, constructed inside, lets a colocated engine decode all n rows at once.

    TRL sets `max_num_seqs` to the rows of the update, so the others would wait for a place.
    """
    original = grpo_trainer.VLLMGeneration

    def construct(**options: Any) -> Any:
        rows = -(-options["max_num_seqs"] * num_rollouts // num_generations)
        options["max_num_seqs"] = min(rows, MAX_NUM_BATCHED_TOKENS)
        return original(**options)

    with patch.object(grpo_trainer, "VLLMGeneration", construct):
        yield


def one_request_per_prompt(
    generation: Any, num_prompts: int, asked: int
) -> AbstractContextManager[Any]:
    """TRL's `VLLMGeneration.generate`, called inside, asks for each prompt once.

    Colocated, TRL makes a request of every row; a prompt's rows on this process (or on those that
    share a tensor-parallel engine) become one request. A server is asked for n completions of each
    prompt already, but also for n of every prompt among the rows that pad the last ranks' shares;
    those requests are dropped.

    Args:
        generation: the trainer's `vllm_generation`.
        num_prompts: prompts of this generation, over all processes.
        asked: rollouts of each.
    """
    if generation.mode == "server":
        client = getattr(generation, "vllm_client", None)
        if client is None:  # the main process has it
            return nullcontext()
        return patch.object(client, "generate", _without_padding(client.generate, num_prompts))
    return patch.object(generation.llm, "generate", _grouped(generation.llm.generate, asked))


def _grouped(generate: Callable[..., Any], asked: int) -> Callable[..., list[Any]]:
    """The engine's `generate`, one request for the rows of a prompt here; one output per row."""

    def grouped(prompts: Sequence[Any], sampling_params: Any, **kwargs: Any) -> list[Any]:
        lengths = [(prompt, len(list(rows))) for prompt, rows in groupby(prompts)]
        # a prompt that follows itself is several requests
        whole = [(p, many, 1 if many % asked else many // asked) for p, many in lengths]
        runs = [(p, many // times) for p, many, times in whole for _ in range(times)]
        params = [sampling_params.clone() for _ in runs]
        for one, (_, n) in zip(params, runs, strict=True):
            one.n = n
        requests = generate([prompt for prompt, _ in runs], sampling_params=params, **kwargs)
        rows = []
        for request in requests:
            for output in request.outputs:
                row = copy.copy(request)
                row.outputs = [output]
                rows.append(row)
        return rows

    return grouped


def _without_padding(generate: Callable[..., Any], num_prompts: int) -> Callable[..., Any]:
    """The client's `generate` for the real prompts; padding rows repeat the last completion."""

    def trimmed(prompts: Sequence[Any], n: int, **kwargs: Any) -> dict[str, Any]:
        padding = len(prompts) - num_prompts
        if kwargs.get("features") is not None:  # of the images
            kwargs["features"] = kwargs["features"][:num_prompts]
        output = generate(prompts=prompts[:num_prompts], n=n, **kwargs)
        rows_of = {"prompt_ids": 1}  # per prompt, the others per completion
        return {
            name: values and [*values, *values[-1:] * (padding * rows_of.get(name, n))]
            for name, values in output.items()
        }

    return trimmed


# ---- rounds in which no prompt waits for another -------------------------------------------------

#: Takes in what was generated of prompts, by number, whose round has ended (was it the first?), and
#: says which of them go on. Inside, TRL's `VLLMGeneration.generate` gives what was generated.
Ended = Callable[[list[int], bool], list[int]]


@contextmanager
def alone() -> Iterator[None]:
    """Inside, what accelerate does together with other processes this one does for itself.

    Its index stays, so that what code leaves to the main process, such as logging, is left to that.
    All processes leave together, and an error of one is raised in all.
    """
    states: tuple[Any, ...] = (PartialState._shared_state, AcceleratorState._shared_state)
    names = ("distributed_type", "num_processes")
    together = [{name: state[name] for name in names} for state in states]
    own: Exception | None = None
    for state in states:
        state.update(zip(names, (DistributedType.NO, 1), strict=True))
    try:
        yield
    except Exception as error:  # noqa: BLE001 (raised again, in all processes)
        own = error
    finally:
        for state, before in zip(states, together, strict=True):
            state.update(before)
    kind = RewardError if isinstance(own, RewardError) else RuntimeError
    failed = gather_object([] if own is None else [(kind, PartialState().process_index, str(own))])
    if own is not None:
        raise own
    for kind, process, said in failed:
        raise kind(f"process {process} failed: {said}")


def why_not_apart(generation: Any) -> str | None:
    """Why processes can't generate without each other, if so; for a server each gets a client.

    TRL has one in the main process only. The others use theirs to generate, for nothing else.
    """
    if generation.mode == "colocate":
        shared = generation.tensor_parallel_size > 1
        return "vllm_tensor_parallel_size is above 1" if shared else None
    state = PartialState()
    main = [generation.vllm_client.base_url, gethostname()] if state.is_main_process else [None] * 2
    url, host = broadcast_object_list(main)
    unreached: list[int] = []
    if not state.is_main_process:
        try:
            if urlparse(url).hostname in _THIS_MACHINE and gethostname() != host:
                raise ConnectionError("an address on the main process's machine")
            generation.vllm_client = VLLMClient(base_url=url)
        except Exception:  # noqa: BLE001 (no server there, or another one)
            unreached = [state.process_index]
    unreached = gather_object(unreached)
    if not unreached:
        return None
    return (
        f"processes {unreached} can't reach the server at {url}; give vllm_server_base_url an"
        " address that all machines reach"
    )


def as_prompts_end(generation: Any, rest: int, ended: Ended) -> AbstractContextManager[Any]:
    """TRL's `VLLMGeneration.generate`, called inside for a process's prompts, makes none wait.

    Every prompt is asked for its first round. As soon as that has ended, `ended` is called, and a
    prompt that goes on is asked for its rest, while others are still in their first round. The
    call returns when all have ended, with the first rounds. Other processes have their own.

    Args:
        generation: the trainer's `vllm_generation`.
        rest: rollouts of a prompt to ask for after its first round.
        ended: called with several prompts where several have ended.
    """
    if generation.mode == "server":  # TRL's gathers all prompts first
        return patch.object(generation, "generate", _by_server(generation, rest, ended))
    return patch.object(generation.llm, "generate", _in_process(generation, rest, ended))


def _in_process(generation: Any, rest: int, ended: Ended) -> Callable[..., Any]:
    """For a colocated engine, which takes new requests between its steps."""
    llm, engine = generation.llm, generation.llm.llm_engine

    def generate(prompts: Sequence[Any], sampling_params: Any, **_: Any) -> list[Any]:
        running: dict[str, tuple[int, bool]] = {}  # prompt, and whether it is its first round
        rests: dict[int, Any] = {}

        def ask(prompt: int, n: int | None) -> None:
            name, params = f"podsrl-{next(_REQUESTS)}", sampling_params[prompt].clone()
            params.n = n or params.n
            params.output_kind = type(params.output_kind).FINAL_ONLY
            engine.add_request(name, prompts[prompt], params)
            running[name] = prompt, n is None

        def answers() -> dict[int, Any]:
            # The engine waits while rewards are computed. So a quarter of the first rounds that are
            # left are judged at once, and all second ones, on which nothing waits, at the end.
            found: dict[int, Any] = {}
            left = sum(is_first for _, is_first in running.values())
            while running and (not left or len(found) < left / 4):
                for request in engine.step():
                    if request.finished:
                        prompt, is_first = running.pop(request.request_id)
                        (found if is_first else rests)[prompt] = request
            return found or {prompt: rests.pop(prompt) for prompt in list(rests)}

        def take(outputs: list[Any], of: list[int], first: bool) -> list[int]:
            with (
                patch.object(llm, "generate", lambda *_, **__: outputs),
                patch.object(generation, "enable_sleep_mode", False),  # others are still running
            ):
                return ended(of, first)

        try:
            with alone():
                return _first_rounds(len(prompts), rest, ask, answers, take)
        finally:
            if running:  # a reward function has failed
                engine.abort_request(list(running))

    return generate


def _by_server(generation: Any, rest: int, ended: Ended) -> Callable[..., Any]:
    """For a server: TRL's whole method, with a client that makes a POST for each prompt."""
    client, whole = generation.vllm_client, generation.generate

    def of_ended(prompts: list[int], first: bool) -> list[int]:
        with patch.object(generation, "generate", whole):
            return ended(prompts, first)

    posted = _posted(client, rest, of_ended)
    as_main = SimpleNamespace(is_main_process=True, process_index=0)  # only that asks the server

    def generate(**given: Any) -> Any:
        PartialState().wait_for_everyone()  # until the main one has updated the server's weights
        with (
            alone(),
            patch.object(generation, "accelerator", as_main),
            patch.object(client, "generate", posted),
        ):
            return whole(**given)

    return generate


def _posted(client: Any, rest: int, ended: Ended) -> Callable[..., Any]:
    """A POST for each prompt. Rewards are computed while others are answered."""
    post = client.generate

    def generate(prompts: Sequence[Any], **options: Any) -> dict[str, Any]:
        running: dict[Future[Any], int] = {}
        features = options.pop("features", None)  # of the images

        def ask(prompt: int, n: int | None) -> None:
            own = {**options, "n": n or options["n"], "prompts": prompts[prompt : prompt + 1]}
            own["features"] = features and features[prompt : prompt + 1]
            running[threads.submit(post, **own)] = prompt

        def answers() -> dict[int, Any]:
            found = wait(running, return_when=FIRST_COMPLETED).done
            return {running.pop(answer): answer.result() for answer in found}

        def take(outputs: list[Any], of: list[int], first: bool) -> list[int]:
            with (
                patch.object(client, "generate", lambda **_: _joined(outputs)),
                patch.object(client, "image_features", lambda images: [None] * len(images)),
            ):
                return ended(of, first)

        threads = ThreadPoolExecutor(min(len(prompts), MAX_POSTS))
        try:
            return _joined(_first_rounds(len(prompts), rest, ask, answers, take))
        finally:  # if a reward function has failed, some are still to be answered or posted
            threads.shutdown(wait=False, cancel_futures=True)

    return generate


def _first_rounds(prompts: int, rest: int, ask: Any, answers: Any, take: Any) -> list[Any]:
    """Ask for every prompt, and for the rest of those that go on; the first answer of each."""
    first: dict[int, Any] = {}
    for prompt in range(prompts):
        ask(prompt, None)
    waiting_for = prompts
    while waiting_for:
        found = answers()
        waiting_for -= len(found)
        for is_first in (True, False):
            of = sorted(prompt for prompt in found if (prompt not in first) == is_first)
            for prompt in take([found[i] for i in of], of, is_first) if of else ():
                ask(prompt, rest)
                waiting_for += 1
        first = found | first
    return [first[prompt] for prompt in range(prompts)]


def _joined(outputs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One answer of a server's client from several."""
    return {
        name: value and [one for output in outputs for one in output[name]]
        for name, value in outputs[0].items()
    }
