"""What the measurements share: a cloud to measure, processes that end with their owner, figures as text and as JSON.

The cloud and its clean-up are those of the end-to-end tests. Nothing is ended that was not started here.
"""

import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

# A measurement that is told to end cleans up first.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/e2e"))
from conftest import SPX, Cloud, destroy, make_cloud, wait_until  # noqa: E402, F401


@contextlib.contextmanager
def a_cloud():
    """A cloud that is not started yet; destroyed whatever happens."""
    cloud = make_cloud()
    try:
        yield cloud
    finally:
        process = cloud.process
        if process is not None and process.poll() is None:
            ended = subprocess.run([SPX, "down", "--data", str(cloud.data)], capture_output=True, timeout=300)
            if ended.returncode != 0:
                # A signal to the whole group, such as Ctrl-C, has reached `spx up` as well: it ends and leaves its guests,
                # and only when it has ended can they be taken down.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(30)
        destroy(cloud)


@contextlib.contextmanager
def a_process(*command, **options):
    """A process that is ended with the block."""
    process = subprocess.Popen([str(word) for word in command], **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def median_and_range(values, unit="ms", scale=1000.0):
    """`345 ms (320 to 410, n = 7)`."""
    scaled = [value * scale for value in values]
    low, high = min(scaled), max(scaled)
    return f"{statistics.median(scaled):.0f} {unit} ({low:.0f} to {high:.0f}, n = {len(scaled)})"


def report(name, figures):
    """Prints figures, and keeps them for `benches/run` where it asked for it."""
    print(f"== {name}")
    for key, value in figures.items():
        print(f"   {key}: {value}")
    print(flush=True)
    kept = os.environ.get("BENCH_OUT")
    if kept:
        path = pathlib.Path(kept) / f"{name.replace(' ', '-')}.json"
        path.write_text(json.dumps({"load": os.getloadavg(), "at": time.strftime("%FT%TZ", time.gmtime()), **figures}))
