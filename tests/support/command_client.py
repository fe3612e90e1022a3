"""A command line that is run by a fork of command_server.py: `python -I -S command_client.py SOCKET
WORD ...` has the streams, folder, environment, exit status and signals of the command.

It imports as little as it can: its start is what a command line costs.
"""

import os
import socket
import sys


def main(address: str, *words: str) -> int:
    """Run the command line; its exit status."""
    strings = ", ".join(f'"{os.fsencode(word).hex()}"' for word in words)
    import json

    told = json.dumps({"folder": os.getcwd(), "environment": dict(os.environ)})
    data = f'{{"words": [{strings}], {told[1:]}\n'.encode()
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        sent = socket.send_fds(server, [data], [0, 1, 2])
        server.sendall(data[sent:])
        code = int(server.makefile().readline() or 1)
    if code < 0:
        import signal

        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
