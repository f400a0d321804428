"""`ssmt` without the seconds that importing torch takes: a process that has everything imported forks for each call.

What a call sees is what it would see otherwise: its own arguments, directory, standard streams and exit status.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

CLIENT = """\
#!{python} -IS
import os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, ["\\0".join([os.getcwd(), *sys.argv[1:]]).encode()], [0, 1, 2])
    answer = server.recv(1)
sys.exit(answer[0] if answer else "the call died")
"""


@contextlib.contextmanager
def preloaded_ssmt() -> Iterator[Path]:
    """A directory to put in front of PATH: it holds the program."""
    with tempfile.TemporaryDirectory(prefix="ssmt") as name:  # short: a socket's path has 104 characters at most
        directory = Path(name)
        address, program = directory / "socket", directory / "ssmt"
        program.write_text(CLIENT.format(python=sys.executable, address=str(address)), encoding="utf-8")
        program.chmod(0o755)
        with subprocess.Popen([sys.executable, __file__, str(address)], stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            try:
                assert server.stdout.readline() == b"ready\n"
                yield directory
            finally:
                server.kill()


def serve(address: str) -> None:
    import ssmt.evaluation.report
    import ssmt.training.run
    import ssmt.translator  # noqa: F401 (these bring everything slow along)

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                message, streams, *_ = socket.recv_fds(connection, 1 << 16, 3)
                if os.fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    status = call(message.decode(), streams)
                    connection.send(bytes([status]))
                    os._exit(status)
                for stream in streams:
                    os.close(stream)


def call(message: str, streams: list[int]) -> int:
    from ssmt.cli import main

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    directory, *arguments = message.split("\0")
    os.chdir(directory)
    sys.argv = ["ssmt", *arguments]
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    except BaseException as error:  # as Python itself would end
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
