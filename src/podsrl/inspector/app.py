"""The server of `pods inspect`: the front end, and what it asks for as JSON.

Whoever has the address, with its token, can read the runs, choose the rule by which PODS would keep
rollouts, and label these in the file of notes beside a run; nothing else can be changed. The rule
is one of `podsrl.RULES`, or the one that the app was started with: code of other files is never
run. A request under another host's name is refused, so that no web page in the same browser can
read along by pointing its own name at this machine (DNS rebinding).
"""

import ipaddress
import secrets
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from podsrl.errors import (
    InvalidInputError,
    PodsError,
    UnknownNameError,
    fields_named,
    suggestion,
)
from podsrl.inspector.answers import (
    FILES_CHANGED,
    curves_of,
    featured,
    full_text,
    group_of,
    histogram_of,
    settings_of,
    shared_prompts,
    state_of,
    step_of,
)
from podsrl.inspector.index import Index
from podsrl.inspector.keeping import Keep
from podsrl.inspector.notes import Mark
from podsrl.inspector.search import Query, search, write_results
from podsrl.rules import RULES

STATIC = Path(__file__).parent / "static"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:;"
    " base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
)


class OnlyOurHost:
    """Refuses requests whose Host header is a name that this server was not started with.

    A numeric address is no name that somebody else could point here, and always allowed.
    """

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self.app = app
        # Browsers send a name in small letters, however it was typed.
        self.names = {name.lower() for name in names} | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403 where the name is foreign."""
        if scope["type"] == "http":
            host = Request(scope).headers.get("host", "")
            name, has_port, _ = host.rpartition(":")
            if not has_port:
                name = host
            if not self._is_ours(host, name):
                refusal = PlainTextResponse(
                    f"refused: this server does not go by the name {name[:100]!r}; open the address"
                    " that `pods inspect` printed",
                    status_code=403,
                )
                await refusal(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _is_ours(self, host: str, name: str) -> bool:
        if name.lower() in self.names:
            return True
        for address in (name, host):
            try:
                ipaddress.ip_address(address.strip("[]"))
            except ValueError:
                continue
            return True
        return False


def make_app(
    index: Index,
    token: str,
    names: frozenset[str] = frozenset(),
    in_frame: bool = False,
    rule_at_start: str = Keep.rule,
) -> Starlette:
    """The app over an index, which is being filled.

    Args:
        index: The runs.
        token: What every request for data must bring, in the address or as a header.
        names: Host names by which the server may be called, beside localhost.
        in_frame: Whether pages of other servers, such as a notebook's, may show it in a frame.
        rule_at_start: The rule that the runs were opened with. It and podsrl's own can be chosen.
    """

    def opening_page(request: Request) -> Response:
        if not _has_token(request, token):
            return _refused()
        index.has_reader()
        return HTMLResponse((STATIC / "index.html").read_text(encoding="utf-8"))

    def rules() -> list[str]:
        """The rules that a reader may choose."""
        return list(dict.fromkeys([*RULES, rule_at_start]))

    def state(request: Request) -> dict[str, Any]:
        return state_of(index, rules())

    def curves(request: Request) -> dict[str, Any]:
        return curves_of(index, index.run_named(_word(request, "run")))

    def settings(request: Request) -> dict[str, Any]:
        return settings_of(index.run_named(_word(request, "run")))

    def histogram(request: Request) -> dict[str, Any]:
        run = index.run_named(_word(request, "run"))
        bounds = [_bound(request, name) for name in ("step_min", "step_max")]
        return histogram_of(index, run, _word(request, "function") or None, *bounds)

    def shared(request: Request) -> dict[str, Any]:
        left, right = (index.run_named(_word(request, name)) for name in ("left", "right"))
        return shared_prompts(index, left, right)

    def begin(request: Request) -> dict[str, Any]:
        return {"group": featured(index)}

    def step(request: Request) -> dict[str, Any]:
        run = index.run_named(_word(request, "run"))
        return step_of(index, run, _number(request, "step"), _number(request, "most", 200))

    def group(request: Request) -> dict[str, Any]:
        run = index.run_named(_word(request, "run"))
        return group_of(index, run, _number(request, "step"), _number(request, "group"))

    def text(request: Request) -> dict[str, Any]:
        run = index.run_named(_word(request, "run"))
        place = [_number(request, name) for name in ("step", "group", "rollout")]
        return {"text": full_text(index, run, *place)}

    def mark(request: Request) -> dict[str, Any]:
        run = index.run_named(_word(request, "run"))
        step, group, rollout = (_number(request, n) for n in ("step", "group", "rollout"))
        said = Mark(_word(request, "label") or "", _word(request, "note") or "")
        index.mark(run, (step, group, rollout), said)
        return {"label": said.label, "note": said.note}

    def choose(request: Request) -> dict[str, Any]:
        given = _bound(request, "keep")
        rule = _word(request, "rule") or Keep.rule
        # The name of another one is the path of a file, whose code would run.
        if rule not in rules():
            raise UnknownNameError(f"unknown rule {rule!r}; {suggestion(rule, rules())}")
        with fields_named({"num_kept": "the number to keep"}):
            index.keep_by(Keep(given, rule))
        return state(request)

    def found(request: Request) -> dict[str, Any]:
        words = dict(request.query_params)
        return search(index, Query.of(words), words.get("before", ""))

    def download(request: Request) -> Response:
        kind = request.query_params.get("format", "csv")
        folder = tempfile.TemporaryDirectory(prefix="podsrl-download-")
        try:
            query = Query.of(dict(request.query_params))
            file = write_results(index, query, kind, Path(folder.name))
        except BaseException:
            folder.cleanup()
            raise
        return FileResponse(file, filename=file.name, background=BackgroundTask(folder.cleanup))

    answers = {
        "state": state,
        "curves": curves,
        "settings": settings,
        "histogram": histogram,
        "shared": shared,
        "featured": begin,
        "step": step,
        "group": group,
        "text": text,
        "search": found,
        "download": download,
    }
    routes: list[Any] = [Route("/", _with_errors(opening_page))]
    for name, answer in answers.items():
        # An open page asks for the state all the time, and nobody waits for it.
        note = None if name == "state" else index.has_reader
        routes.append(Route(f"/api/{name}", _with_errors(_for_token(answer, token, note))))
    # What changes something is a request of its own kind, which no link of another page makes.
    for name, change in {"mark": mark, "choose": choose}.items():
        write = _with_errors(_for_token(change, token, index.has_reader))
        routes.append(Route(f"/api/{name}", write, methods=["POST"]))
    routes.append(Mount("/static", StaticFiles(directory=STATIC)))

    app = Starlette(routes=routes)
    app.add_middleware(GZipMiddleware, minimum_size=2_000, compresslevel=4)
    app.add_middleware(_Headers, policy=_POLICY.format(ancestors="*" if in_frame else "'none'"))
    app.add_middleware(OnlyOurHost, names=names)
    return app


class _Headers:
    """Adds to every answer what a browser is to refuse on its own."""

    def __init__(self, app: ASGIApp, policy: str) -> None:
        self.app = app
        self.headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cache-control", b"no-store"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self.headers]
            await send(message)

        await self.app(scope, receive, send_with_headers)


def _for_token(
    answer: Callable[[Request], Any], token: str, note: Callable[[], None] | None
) -> Callable[[Request], Response]:
    """An answer as JSON, for requests with the token only; `note` is told of each."""

    def respond(request: Request) -> Response:
        if not _has_token(request, token):
            return _refused()
        if note is not None:
            note()
        value = answer(request)
        return value if isinstance(value, Response) else JSONResponse(value)

    return respond


def _with_errors(respond: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """Answer a wrong question with one sentence."""

    def respond_or_tell(request: Request) -> Response:
        try:
            return respond(request)
        except PodsError as error:
            return JSONResponse({"error": str(error)}, status_code=404)
        except (duckdb.IOException, FileNotFoundError):
            # A run that starts anew, or thins out its log, takes files away.
            return JSONResponse({"error": FILES_CHANGED}, status_code=404)

    return respond_or_tell


def _has_token(request: Request, token: str) -> bool:
    given = request.headers.get("x-token") or request.query_params.get("token", "")
    return secrets.compare_digest(given.encode(), token.encode())


def _refused() -> Response:
    return PlainTextResponse(
        "refused: the token is missing or wrong; open the whole address that `pods inspect`"
        " printed, with ?token=",
        status_code=403,
    )


def _word(request: Request, name: str) -> str | None:
    return request.query_params.get(name)


def _bound(request: Request, name: str) -> int | None:
    return _number(request, name) if request.query_params.get(name) else None


def _number(request: Request, name: str, otherwise: int | None = None) -> int:
    word = request.query_params.get(name, "" if otherwise is None else str(otherwise))
    try:
        return int(word)
    except ValueError as error:
        raise InvalidInputError(f"{name} must be an integer; got {word!r}") from error


class InspectorServer:
    """An index and its server, in threads of this process.

    Args:
        index: The runs; it is filled from `start` on, and closed by `close`.
        host: The address to listen at.
        port: The port; 0 takes any that is free.
        in_frame, rule_at_start: As of `make_app`.

    Raises:
        InvalidInputError: The port is taken, or the host is none of this machine's.
    """

    def __init__(
        self,
        index: Index,
        host: str = "127.0.0.1",
        port: int = 0,
        in_frame: bool = False,
        rule_at_start: str = Keep.rule,
    ) -> None:
        self.index = index
        self.token = secrets.token_urlsafe(24)
        self._socket = _listen(host, port)
        self.port = int(self._socket.getsockname()[1])

        everywhere = host in ("0.0.0.0", "::")
        shown = socket.gethostname() if everywhere else host
        if ":" in shown:
            shown = f"[{shown}]"
        self.address = f"http://{shown}:{self.port}/?token={self.token}"

        hosts = {host}
        if everywhere:
            hosts = {host, socket.gethostname(), socket.getfqdn()}
        app = make_app(index, self.token, frozenset(hosts), in_frame, rule_at_start)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_level="error",
                lifespan="off",
                access_log=False,
                timeout_graceful_shutdown=2,
            )
        )
        self._thread: threading.Thread | None = None

    def serve(self, announce: Callable[[], None]) -> None:
        """Serve until the process is told to end; `announce` tells that it serves.

        An interrupt ends it, a termination, and a terminal that is gone, such as that of a dropped
        ssh.
        """
        ended_by: list[int] = []

        def end(number: int, frame: object) -> None:
            ended_by.append(number)
            signal.signal(number, signal.SIG_DFL)  # a second one does not wait

        ends = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as it is after nohup
            ends.append(signal.SIGHUP)
        for number in ends:
            signal.signal(number, end)
        self.start()
        try:
            announce()
            # One wait without a limit could last for ever: Python calls `end` between two of its
            # own steps, and a signal that comes after the last of them does not end the wait.
            while not ended_by:
                time.sleep(0.1)
        finally:
            self.close()

    def start(self) -> None:
        """Serve in a thread."""
        self.index.start()
        self._thread = threading.Thread(
            target=self._server.run,
            kwargs={"sockets": [self._socket]},
            name="inspector server",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """End what `start` began."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()
        self.index.close()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        # From now on requests wait for the server, so the address can be told before it is ready.
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise InvalidInputError(
            f"can't listen at {host}:{port} ({reason}): choose another --port or --host"
        ) from error
    return listening
