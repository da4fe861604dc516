"""The shell part of the batch script: it starts the controller, passes signals on to it, and starts it again."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator

from kedge.engines.slurm.options import SlurmOptions
from kedge.spec.units import seconds

_WATCH = r"""# Runs on the second node: ends or requeues the job if the first node, with this script, has failed.
watch='
last=none
while sleep %(watch)d; do
    now=$(cat "$1/cluster/heartbeat") || continue
    if [ "$now" != "$last" ]; then last=$now; continue; fi
    facts=$(scontrol --oneliner show job "$SLURM_JOB_ID" | head -n 1)
    host=$(echo "$facts" | sed -n "s/.* BatchHost=\([^ ]*\).*/\1/p")
    nodes=$(echo "$facts" | sed -n "s/.* NodeList=\([^ ]*\).*/\1/p")
    if [ -z "$host" ] || [ -z "$nodes" ]; then continue; fi
    if scontrol show hostnames "$nodes" | grep -qx "$host"; then continue; fi
    umask 077
    printf "{\"number\": %%d, \"cause\": \"node_failure\", \"text\": \"%%s\"}" "${SLURM_RESTART_COUNT:-0}" \
        "the node $host, on which its controller ran, has failed" >"$1/cluster/allocation.json"
    %(end)s
done
'
"""
# A trap ends `wait` early, so the code is known only after a wait during which no signal came. A second wait for a
# process that has ended returns 127. Above 128, a signal has killed it.
_LOOP = r"""run=%(run)s
bundle=%(bundle)s
controller='' signalled='' pending='' pause=''

forward() {
    signalled=yes
    if [ -n "$controller" ]; then
        kill -s "$1" "$controller" 2>/dev/null
    else # for the next controller, which starts now
        pending="$pending $1"
        if [ -n "$pause" ]; then kill "$pause" 2>/dev/null; fi
    fi
}
trap 'forward TERM' TERM
trap 'forward INT' INT
trap 'forward HUP' HUP
trap 'forward USR1' USR1
trap 'forward USR2' USR2

if [ ! -x "$bundle/controller" ]; then
    echo "kedge: $bundle is not on the node ${SLURMD_NODENAME:-$(hostname)};" \
        "set XDG_CACHE_HOME to a folder that all nodes share" >&2
    exit 4
fi
if [ "${SLURM_JOB_NUM_NODES:-1}" -gt 1 ]; then
    srun --overlap --relative=1 --nodes=1 --ntasks=1 --cpus-per-task=1 --mem=0 --gres=none --no-kill --mpi=none \
        --job-name=watch --input=none --output=/dev/null sh -c "$watch" watch "$run" >/dev/null 2>&1 &
fi
restarts=0
while :; do
    given=$pending pending=''
    "$bundle/controller" "$run" $given &
    controller=$! code=''
    for each in $pending; do kill -s "$each" "$controller"; done
    pending=''
    began=$(date +%%s)
    while :; do
        signalled=''
        wait "$controller"
        last=$?
        if [ "$last" -ne 127 ] || [ -z "$code" ]; then code=$last; fi
        if [ -z "$signalled" ]; then break; fi
    done
    controller=''
    case $code in
    129 | 130 | 138 | 143) break ;; # HUP, INT, USR1 and TERM asked it to stop
    esac
    if [ "$code" -le 128 ]; then break; fi
    if [ $(($(date +%%s) - began)) -ge %(long)d ]; then restarts=0; fi # it has worked for long
    if [ "$restarts" -ge %(most)d ]; then
        echo "kedge: the controller was killed by signal $((code - 128)); $restarts restarts did not help" >&2
        break
    fi
    restarts=$((restarts + 1))
    echo "kedge: the controller was killed by signal $((code - 128)); restart $restarts of %(most)d" >&2
    sleep $((restarts * 2)) &
    pause=$!
    if [ -z "$pending" ]; then wait "$pause" 2>/dev/null; fi
    pause=''
done
# Remove what killed agents have left on this node, such as secrets in memory.
if [ -x "$bundle/agent" ]; then "$bundle/agent" --sweep </dev/null; fi
"""
MOST_RESTARTS = 5
_LONG_SEC = 3600  # a controller that was killed after so long could work: a job may run for weeks
_LEAST_WATCH_SEC = 20  # longer than between two heartbeats of the controller


def body(run: str, bundle: str, options: SlurmOptions) -> Iterator[str]:
    """The script below its directives, as blocks of lines. `run` and `bundle` are folders."""
    if settings := tuple(_settings(options)):
        yield "".join(f"{line}\n" for line in settings)
    if options.prologue:
        yield _of_site("prologue", options.prologue)
    end = (
        'scontrol requeue "$SLURM_JOB_ID" || scancel "$SLURM_JOB_ID"' if options.requeue else 'scancel "$SLURM_JOB_ID"'
    )
    yield _WATCH % {"watch": max(_LEAST_WATCH_SEC, math.ceil(seconds(options.unreachable))), "end": end}
    yield _LOOP % {"run": shlex.quote(run), "bundle": shlex.quote(bundle), "most": MOST_RESTARTS, "long": _LONG_SEC}
    if options.epilogue:
        yield _of_site("epilogue", options.epilogue)
    yield 'exit "$code"\n'


def _settings(options: SlurmOptions) -> Iterator[str]:
    if options.commands:
        yield f'PATH={shlex.quote(options.commands)}:"$PATH"'
    if options.conf:
        yield f"export SLURM_CONF={shlex.quote(options.conf)}"


def _of_site(name: str, lines: tuple[str, ...] | list[str]) -> str:
    return "\n".join((f"# engines.slurm.{name} of the site", *lines, ""))
