"""The seccomp filter: which system calls a confined process may not make.

Confined code needs files, memory, threads, and pipes; it needs no part of the kernel that lets a process
inspect others, change mounts, create namespaces, load code into the kernel, or hold memory that no limit
counts. Those calls fail with EPERM. The list names what is refused, so that a new C library keeps working;
the rest of the confinement bounds the damage, and this reduces the attack surface of the kernel.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

# Numbers on x86_64 and on aarch64; None where there is no such call.
REFUSED: Mapping[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mbind": (237, 235),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "semget": (64, 190),
    "set_mempolicy": (238, 237),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "shmget": (29, 194),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
    "vmsplice": (278, 75),
}
CLONE, CLONE3, SOCKET = (56, 220), 435, (41, 198)
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
X32 = 0x40000000
NEW_NAMESPACE = 0x7E020000
"""The flags of `clone` that create a namespace of any kind."""

FAMILIES = (1, 2, 10)
"""Socket families: local, IPv4 and IPv6. A network namespace confines these; others (vsock) bypass it."""

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # offsets in seccomp_data


class Instruction(NamedTuple):
    """One BPF instruction: opcode, jumps if true and if false, and operand."""

    code: int
    true: int
    false: int
    value: int


@lru_cache(maxsize=1)
def program(machine: str = "") -> bytes | None:
    """The filter for this machine, or the one named; None if its system calls are not known here."""
    known = MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    return b"".join(struct.pack("=HBBI", *step) for step in _steps(*known))


def _steps(column: int, architecture: int) -> Iterator[Instruction]:
    """The instructions of the filter."""
    yield Instruction(LOAD, 0, 0, ARCHITECTURE)
    yield from _unless(EQUAL, architecture, KILL)
    yield Instruction(LOAD, 0, 0, NUMBER)
    if column == 0:
        yield from _if(AT_LEAST, X32, KILL)
    for numbers in REFUSED.values():
        number = numbers[column]
        if number is not None:
            yield from _if(EQUAL, number, ERROR | errno.EPERM)
    # The flags of clone3 are in memory, which a filter cannot read; the C library falls back to `clone`.
    yield from _if(EQUAL, CLONE3, ERROR | errno.ENOSYS)
    yield Instruction(EQUAL, 0, 4, CLONE[column])
    yield Instruction(LOAD, 0, 0, FIRST_ARGUMENT)
    yield from _if(ANY_BIT, NEW_NAMESPACE, ERROR | errno.EPERM)
    yield Instruction(RETURN, 0, 0, ALLOW)
    yield Instruction(EQUAL, 0, len(FAMILIES) + 2, SOCKET[column])
    yield Instruction(LOAD, 0, 0, FIRST_ARGUMENT)
    for left, family in zip(range(len(FAMILIES), 0, -1), FAMILIES, strict=True):
        yield Instruction(EQUAL, left, 0, family)
    yield Instruction(RETURN, 0, 0, ERROR | errno.EAFNOSUPPORT)
    yield Instruction(RETURN, 0, 0, ALLOW)


def _if(test: int, value: int, answer: int) -> Iterator[Instruction]:
    """Return the answer if the test is true."""
    yield Instruction(test, 0, 1, value)
    yield Instruction(RETURN, 0, 0, answer)


def _unless(test: int, value: int, answer: int) -> Iterator[Instruction]:
    """Return the answer if the test is false."""
    yield Instruction(test, 1, 0, value)
    yield Instruction(RETURN, 0, 0, answer)
