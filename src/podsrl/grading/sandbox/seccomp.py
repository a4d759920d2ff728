"""A system-call filter for the sandbox: no new processes, no memory outside the limits.

bubblewrap isolates; what it cannot do without control groups is to bound the number of processes
and the memory that lies outside every address space (memfd, System V shared memory). This filter
refuses those calls with EPERM. It is the classic BPF program that `bwrap --seccomp FD` reads, an
array of struct sock_filter (linux/filter.h).
"""

import platform
import struct

_LOAD, _EQUAL, _SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_NUMBER, _ARCHITECTURE, _ARGUMENT_0 = 0, 4, 16  # offsets in struct seccomp_data
_CLONE_THREAD = 0x00010000

#: Calls that are refused, with their numbers on x86-64 and on ARM64, from the kernel's tables.
_REFUSED = """
    fork 57 -, vfork 58 -, ptrace 101 117, shmget 29 194, msgget 68 186, semget 64 190,
    memfd_create 319 279, memfd_secret 447 447, io_uring_setup 425 425,
    userfaultfd 323 282, bpf 321 280, perf_event_open 298 241, add_key 248 217,
    keyctl 250 219, unshare 272 97, setns 308 268, mount 165 40,
    process_vm_writev 311 271
"""
#: machine -> its column in that table, AUDIT_ARCH_*, the number of clone
_MACHINES = {"x86_64": (1, 0xC000003E, 56), "aarch64": (2, 0xC00000B7, 220)}
_CLONE3 = 435


def seccomp_filter(machine: str | None = None) -> bytes | None:
    """The filter for this machine's architecture, or None if it is not known.

    clone is allowed for threads only; clone3 (whose flags a filter can't see) seems not to exist,
    so that the C library falls back to clone.
    """
    known = _MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    column, architecture, clone = known
    refused = [call.split()[column] for call in _REFUSED.split(",")]
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, architecture, jump_true=1),
        _step(_RETURN, _KILL),  # a call by another ABI, such as 32-bit, would pass the rest
        _step(_LOAD, _NUMBER),
    ]
    for number in refused:
        if number != "-":
            program += [_step(_EQUAL, int(number), jump_false=1), _step(_RETURN, _ERROR | _EPERM)]
    program += [
        _step(_EQUAL, _CLONE3, jump_false=1),
        _step(_RETURN, _ERROR | _ENOSYS),
        _step(_EQUAL, clone, jump_false=3),
        _step(_LOAD, _ARGUMENT_0),
        _step(_SET, _CLONE_THREAD, jump_true=1),
        _step(_RETURN, _ERROR | _EPERM),
        _step(_RETURN, _ALLOW),
    ]
    if architecture == 0xC000003E:  # the x32 ABI has the same architecture and bit 30 set
        program[4:4] = [_step(0x35, 0x40000000, jump_false=1), _step(_RETURN, _KILL)]
    return b"".join(program)


def _step(code: int, value: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, jump_true, jump_false, value)
