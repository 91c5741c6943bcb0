from __future__ import annotations

import errno
import platform
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.sandbox.confinement import confinement, interpreter
from peira.sandbox.run import run_confined
from peira.sandbox.seccomp import MACHINES, REFUSED, program

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
ALLOWED, KILLED, REFUSES = 0x7FFF0000, 0x80000000, 0x00050000
CALLS = {"x86_64": {"clone": 56, "socket": 41}, "aarch64": {"clone": 220, "socket": 198}}
machines = pytest.mark.parametrize("machine", sorted(MACHINES))


def answer(machine: str, number: int, argument: int = 0, architecture: int | None = None) -> int:
    """What the kernel's machine would return, by its documented rules; the memory holds the call."""
    code = program(machine)
    assert code is not None
    steps = list(struct.iter_unpack("=HBBI", code))
    known = MACHINES[machine][1] if architecture is None else architecture
    memory = struct.pack("=IIQ6Q", number, known, 0, argument, 0, 0, 0, 0, 0)
    at = held = 0
    while True:
        operation, true, false, value = steps[at]
        at += 1
        if operation == 0x06:  # BPF_RET | BPF_K
            return value
        if operation == 0x20:  # BPF_LD | BPF_W | BPF_ABS
            [held] = struct.unpack_from("=I", memory, value)
            continue
        holds = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[operation]
        at += true if holds else false


@machines
def test_what_is_refused_is_refused_and_nothing_else(machine: str) -> None:
    column = MACHINES[machine][0]
    refused = {numbers[column] for numbers in REFUSED.values()}
    for number in range(600):
        if number in refused:
            assert answer(machine, number) == REFUSES | errno.EPERM
        elif number == 435:
            assert answer(machine, number) == REFUSES | errno.ENOSYS
        elif number == CALLS[machine]["socket"]:
            assert answer(machine, number) == REFUSES | errno.EAFNOSUPPORT
        else:
            assert answer(machine, number) == ALLOWED


@machines
@given(number=st.integers(0, 2**32 - 1), architecture=st.integers(0, 2**32 - 1))
def test_calls_of_another_architecture_kill(machine: str, number: int, architecture: int) -> None:
    if architecture != MACHINES[machine][1]:
        assert answer(machine, number, architecture=architecture) == KILLED


@given(number=st.integers(0x40000000, 2**32 - 1))
def test_the_second_table_of_x86_64_kills(number: int) -> None:
    assert answer("x86_64", number) == KILLED


@machines
def test_processes_and_threads_may_be_made_and_namespaces_not(machine: str) -> None:
    clone, fork, thread = CALLS[machine]["clone"], 17, 0x3D0F00
    assert answer(machine, clone, fork) == answer(machine, clone, thread) == ALLOWED
    for namespace in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(machine, clone, fork | namespace) == REFUSES | errno.EPERM


@machines
@given(family=st.integers(0, 60))
def test_only_sockets_that_a_namespace_confines(machine: str, family: int) -> None:
    allowed = answer(machine, CALLS[machine]["socket"], family) == ALLOWED
    assert allowed == (family in (1, 2, 10))


@machines
def test_the_numbers_are_those_of_the_kernel(machine: str) -> None:
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip(f"the kernel's headers are not here: {header.name}")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    known = {name: int(number) for name, number in found}
    ours = {name: numbers[MACHINES[machine][0]] for name, numbers in REFUSED.items()}
    ours |= CALLS[machine] | {"clone3": 435}
    assert {name: number for name, number in ours.items() if known.get(name, number) != number} == {}
    assert {name for name, number in ours.items() if number is None and name in known} == set()


def test_another_machine_has_no_filter() -> None:
    assert program("vax") is None


REAL = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def tries(*arguments):
    ctypes.set_errno(0)
    print(libc.syscall(*map(ctypes.c_long, arguments)), ctypes.get_errno())
"""
NEW_USER = 0x10000000


@pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}")
@pytest.mark.skipif(platform.machine() not in MACHINES, reason="no filter is known for this machine")
def test_the_kernel_refuses_what_it_would_allow_anyone() -> None:
    column = MACHINES[platform.machine()][0]
    tried = [(REFUSED["ptrace"][column], 0), (REFUSED["unshare"][column], NEW_USER)]
    tried += [(REFUSED["memfd_create"][column], 0), (CALLS[platform.machine()]["clone"], NEW_USER | 17)]
    script = REAL + "".join(f"tries({number}, {argument}, 0, 0, 0)\n" for number, argument in tried)
    outcome = run_confined([interpreter(), "-S", "-c", script + "tries(435, 0, 0)\n"])
    assert outcome.stdout.decode().splitlines() == [f"-1 {errno.EPERM}"] * 4 + [f"-1 {errno.ENOSYS}"]
