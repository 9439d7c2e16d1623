"""Idle memory of `spx up`: resident and proportional set 60 s after it was ready, without guests. Aim: 80 MiB.

Without a peer: the figure is a ratio to the aim. Where the memory is (heap, program text, stacks) is printed with it, so that a miss names
its place.
"""

import pathlib
import time

from peers import a_cloud, report

AIM_MIB = 80
IDLE_SECONDS = 60


def rollup(pid):
    """Fields of smaps_rollup in MiB."""
    fields = {}
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split(":")
        fields[name] = int(value.split()[0]) / 1024
    return fields


def main():
    with a_cloud() as cloud:
        cloud.up()
        at_ready = rollup(cloud.process.pid)
        time.sleep(IDLE_SECONDS)
        idle = rollup(cloud.process.pid)
        threads = len(list(pathlib.Path(f"/proc/{cloud.process.pid}/task").iterdir()))
        tell(at_ready, idle, threads)
        cloud.down()


def tell(at_ready, idle, threads):
    """The figures."""
    report(
        "idle memory",
        {
            "RSS": f"{idle['Rss']:.1f} MiB = {idle['Rss'] / AIM_MIB:.2f} of the aim",
            "PSS": f"{idle['Pss']:.1f} MiB",
            "anonymous": f"{idle['Anonymous']:.1f} MiB",
            "when ready": f"{at_ready['Rss']:.1f} MiB",
            "threads": threads,
            "aim": f"{AIM_MIB} MiB: {'met' if idle['Rss'] <= AIM_MIB else 'missed'}",
        },
    )


if __name__ == "__main__":
    main()
