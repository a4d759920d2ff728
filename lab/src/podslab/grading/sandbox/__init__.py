"""Running code that a model wrote: in bubblewrap or in SandboxFusion, never in this process.

`job` says what a run is given and how it ended. `bubblewrap` and `fusion` run it; `seccomp` is the
system-call filter of the first. `inside` is the program that runs in the sandbox.
"""

from podsrl.errors import MissingDependencyError
from podslab.grading.sandbox.bubblewrap import Bubblewrap, why_no_bubblewrap
from podslab.grading.sandbox.fusion import SandboxFusion

_HOW_TO = (
    "Install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install"
    " bubblewrap) on Linux with unprivileged user namespaces allowed, or run SandboxFusion"
    " (github.com/bytedance/SandboxFusion) and give its URL as sandbox_url."
)


def find_sandbox(url: str | None = None) -> Bubblewrap | SandboxFusion:
    """SandboxFusion at `url`, or else bubblewrap.

    Raises:
        MissingDependencyError: neither can be used; the message says why and how to get one.
    """
    if url:
        return SandboxFusion(url)
    problem = why_no_bubblewrap()
    if problem:
        raise MissingDependencyError(
            f"code that a model wrote runs only in a sandbox, and there is none: {problem}."
            f" {_HOW_TO}"
        )
    return Bubblewrap()
