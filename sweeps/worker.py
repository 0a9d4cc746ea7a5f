"""A process that trains one trial after the other and stays warm in between.

It reads jobs as JSON lines from its standard input and answers on the descriptor that it is given.
When the input ends, its driver is gone: it saves what it is training and leaves.
"""

import json
import os
import queue
import signal
import sys
import threading
import time
from typing import Any, TextIO

SECONDS_TO_SAVE = 10.0


def _read_jobs(jobs: "queue.Queue[dict[str, Any] | None]") -> None:
    """Pass jobs on; at the end of the input ask the training to stop, and then insist."""
    for line in sys.stdin:
        jobs.put(json.loads(line))
    jobs.put(None)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SECONDS_TO_SAVE)
    os._exit(1)


def _serve(jobs: "queue.Queue[dict[str, Any] | None]", answers: TextIO) -> None:
    def answer(content: dict[str, Any]) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    from acx.runtime import load_tensorflow

    device = load_tensorflow()
    from acx import runs
    from sweeps.jobs import Job
    from sweeps.training import perform

    session = runs.Session()
    answer({"kind": "ready"})
    while (request := jobs.get()) is not None:
        work = [Job(**job) for job in request["jobs"]]
        answer(perform(request["kind"], work, session, device))


def main() -> None:
    """Serve until the input ends."""
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)  # environments' processes must not hold it open
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    jobs: queue.Queue[dict[str, Any] | None] = queue.Queue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    with os.fdopen(descriptor, "w", encoding="utf-8") as answers:
        _serve(jobs, answers)


if __name__ == "__main__":
    main()
