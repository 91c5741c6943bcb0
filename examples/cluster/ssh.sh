#!/usr/bin/env bash
# Workers of a shared run on machines that are reached by ssh:
#
#   peira run study.py --workers 0 --store "$PEIRA_STORE"     # submit the run
#   ./ssh.sh node1 node2 me@node3                             # one worker on each, until the run is over
#
# PEIRA_STORE is the address of the store (postgresql://...); each machine has peira installed, and the password in
# ~/.pgpass. PEIRA_PARALLEL is the number of trials at once on each. Ctrl-C ends the connections, and with them the workers:
# others go on with what they had once their leases are over (30 s). `peira cancel` ends the run itself.
set -euo pipefail
: "${PEIRA_STORE:?is the address of the store: postgresql://...}"
store=$(printf %q "$PEIRA_STORE") parallel=${PEIRA_PARALLEL:-8} failed=0 pids=()
for machine in "$@"; do
    # -tt: a terminal, so that a worker ends with its connection.
    ssh -tt -o BatchMode=yes ${PEIRA_SSH_OPTIONS:-} "$machine" \
        "${PEIRA_COMMAND:-peira} worker --store $store --parallel $parallel" </dev/null &
    pids+=($!)
done
trap 'kill -INT "${pids[@]}" 2>/dev/null' INT TERM
for pid in "${pids[@]}"; do
    wait "$pid" || failed=1
done
exit "$failed"
