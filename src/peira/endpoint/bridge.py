"""Runs inside the sandbox, with the standard library only: leads a port of its loopback to a Unix socket.

    python -I -S -c SOURCE PORT SOCKET COMMAND...

The command is its child and has its standard streams; it ends with the command, and with its exit status.
"""

import os
import socket
import sys
import threading
from contextlib import suppress


def relay(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes in one direction until either side ends."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end, how in ((source, socket.SHUT_RD), (target, socket.SHUT_WR)):
        with suppress(OSError):
            end.shutdown(how)


def serve(listener: socket.socket, path: str) -> None:
    """Lead every connection to the socket."""
    while True:
        here, _ = listener.accept()
        there = socket.socket(socket.AF_UNIX)
        try:
            there.connect(path)
        except OSError:
            here.close()
            continue
        for pair in ((here, there), (there, here)):
            threading.Thread(target=relay, args=pair, daemon=True).start()


def main() -> None:
    """Start the command, and serve it until it ends."""
    port, path, *command = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=64)
    child = os.fork()
    if child == 0:
        listener.close()
        try:
            os.execvp(command[0], command)
        except OSError as problem:
            os.write(2, f"{command[0]}: {problem.strerror}\n".encode())
            os._exit(127)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # they are the command's alone, so that its end is seen
        os.dup2(nowhere, stream)
    threading.Thread(target=serve, args=(listener, path), daemon=True).start()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
