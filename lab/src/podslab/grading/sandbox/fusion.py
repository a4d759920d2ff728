"""SandboxFusion, a server that runs code in a sandbox (github.com/bytedance/SandboxFusion)."""

import json
import secrets
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from podsrl.errors import InvalidInputError
from podslab.grading.sandbox.job import PROGRAM, Limits, Result, standard_input

_SECONDS_TO_ANSWER = 30.0


class SandboxFusion:
    """Each run is one request to the server's `/run_code`.

    Args:
        url: of the server, such as http://localhost:8080. How well it isolates is the server's
            matter: give it no network and no files of yours.
    """

    def __init__(self, url: str) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise InvalidInputError(f"sandbox_url must begin with http:// or https://; got {url!r}")
        self._url = url.rstrip("/") + "/run_code"

    def run(self, code: str, tests: str, limits: Limits) -> Result:
        """Run `code`, then `tests` in the same namespace; passed if nothing was raised."""
        token = secrets.token_hex(16)
        body = {
            "language": "python",
            "code": PROGRAM,
            "stdin": standard_input(code, tests, limits, token),
            "run_timeout": limits.seconds,
            "memory_limit_MB": limits.memory >> 20,
        }
        request = urllib.request.Request(
            self._url, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(
                request, timeout=limits.seconds + _SECONDS_TO_ANSWER
            ) as response:
                answer = json.load(response)
            return _result(answer, token, limits)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            return Result("broken", f"{type(error).__name__}: {error}")


def _result(answer: dict[str, object], token: str, limits: Limits) -> Result:
    run = answer["run_result"]
    if answer["status"] == "SandboxError" or not isinstance(run, dict):
        return Result("broken", str(answer.get("message")))
    text = str(run.get("stdout") or "")
    output = (text + str(run.get("stderr") or ""))[-4_000:]
    if run["status"] == "TimeLimitExceeded":
        return Result("timeout", output)
    passed = text.endswith(token) and len(text) <= limits.output
    return Result("passed" if passed else "failed", output)
