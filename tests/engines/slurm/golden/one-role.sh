#!/bin/sh
# Runs the job train of ada with kedge: kedge show train-abc2345
#SBATCH --job-name=train
#SBATCH --comment="kedge train-abc2345"
#SBATCH --chdir=/shared/kedge/jobs/train-abc2345
#SBATCH --output=/shared/kedge/jobs/train-abc2345/cluster/batch.log
#SBATCH --open-mode=append
#SBATCH --export=ALL
#SBATCH --no-kill
#SBATCH --no-requeue
#SBATCH --signal=B:USR2@90

#SBATCH --ntasks=2
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=2048M

# Runs on the second node: ends or requeues the job if the first node, with this script, has failed.
watch='
last=none
while sleep 120; do
    now=$(cat "$1/cluster/heartbeat") || continue
    if [ "$now" != "$last" ]; then last=$now; continue; fi
    facts=$(scontrol --oneliner show job "$SLURM_JOB_ID" | head -n 1)
    host=$(echo "$facts" | sed -n "s/.* BatchHost=\([^ ]*\).*/\1/p")
    nodes=$(echo "$facts" | sed -n "s/.* NodeList=\([^ ]*\).*/\1/p")
    if [ -z "$host" ] || [ -z "$nodes" ]; then continue; fi
    if scontrol show hostnames "$nodes" | grep -qx "$host"; then continue; fi
    umask 077
    printf "{\"number\": %d, \"cause\": \"node_failure\", \"text\": \"%s\"}" "${SLURM_RESTART_COUNT:-0}" \
        "the node $host, on which its controller ran, has failed" >"$1/cluster/allocation.json"
    scancel "$SLURM_JOB_ID"
done
'

run=/shared/kedge/jobs/train-abc2345
bundle=/shared/kedge/bundles/1f2e3d
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
    began=$(date +%s)
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
    if [ $(($(date +%s) - began)) -ge 3600 ]; then restarts=0; fi # it has worked for long
    if [ "$restarts" -ge 5 ]; then
        echo "kedge: the controller was killed by signal $((code - 128)); $restarts restarts did not help" >&2
        break
    fi
    restarts=$((restarts + 1))
    echo "kedge: the controller was killed by signal $((code - 128)); restart $restarts of 5" >&2
    sleep $((restarts * 2)) &
    pause=$!
    if [ -z "$pending" ]; then wait "$pause" 2>/dev/null; fi
    pause=''
done
# Remove what killed agents have left on this node, such as secrets in memory.
if [ -x "$bundle/agent" ]; then "$bundle/agent" --sweep </dev/null; fi

exit "$code"

# srun --job-name=worker --nodes=1-2 --ntasks=2 --cpus-per-task=4 --mem-per-cpu=2048M --exact --kill-on-bad-exit=0 --wait=0 --no-kill --mpi=none --export=ALL --input=all --output=/shared/kedge/jobs/train-abc2345/cluster/step-0-worker.log --open-mode=append /shared/kedge/bundles/1f2e3d/agent --index-variable SLURM_PROCID --node-variable SLURMD_NODENAME
