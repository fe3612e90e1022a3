"""`gristmill` and `python -m gristmill`: the command line."""

import signal
import threading

from gristmill.system.interrupts import exit_on_ctrl_c


def main() -> None:
    """Run the command line. Ctrl-C is handled before anything else is imported."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, exit_on_ctrl_c)
    from gristmill.cli.app import main as run

    run()


if __name__ == "__main__":
    main()
