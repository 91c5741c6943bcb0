#!/usr/bin/env bash
# Workers of a shared run as a Slurm array: one worker a node, which executes as many trials at once as it has cores.
#
#   peira run study.py --workers 0 --store "$PEIRA_STORE"     # submit the run; it waits for workers
#   sbatch --array=0-31 slurm.sh                              # as many workers as you like, now or later
#   peira watch --store "$PEIRA_STORE"
#
# PEIRA_STORE is the address of the store (postgresql://...); the password is in ~/.pgpass or PGPASSWORD. A worker that
# Slurm ends at its time limit gets SIGTERM first (--signal): it finishes what it has begun and leaves the rest to others.
# Killed ones are found by their lease. No daemon is needed on the head node.
#SBATCH --job-name=peira
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --output=peira-%A_%a.log
set -euo pipefail
: "${PEIRA_STORE:?is the address of the store: postgresql://...}"
exec peira worker --store "$PEIRA_STORE" --parallel "${SLURM_CPUS_PER_TASK:-8}"
