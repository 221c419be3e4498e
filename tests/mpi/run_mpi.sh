#!/usr/bin/env bash
# Runs a program in several processes, by the launcher of the MPI that it was built for, as root and with
# more processes than cores if need be.
#
#   tests/mpi/run_mpi.sh N PROGRAM [ARGUMENT...]
#
# SAMESTEP_MPI_PRELOAD names a library that the processes load first (the guard), and not the launcher.
# Exit status: the launcher's; 77 (which CTest calls skipped) where there is no launcher.
set -euo pipefail
if [ $# -lt 2 ]; then
  echo "usage: tests/mpi/run_mpi.sh N PROGRAM [ARGUMENT...]" >&2
  exit 3
fi
ranks=$1
shift
libraries=$(ldd "$1")

find_launcher() {  # NAME...: the first that is installed
  local name
  for name in "$@"; do command -v "$name" && return; done
  echo "skipped: none of $* is installed; scripts/setup installs Open MPI, scripts/setup --dev MPICH" >&2
  exit 77
}

case "$libraries" in
  *libmpich.so* | *libmpi.so.12*)
    launcher=$(find_launcher mpiexec.mpich mpiexec.hydra)
    command=("$launcher" -n "$ranks" ${SAMESTEP_MPI_PRELOAD:+-genv LD_PRELOAD "$SAMESTEP_MPI_PRELOAD"})
    ;;
  *libmpi.so*)
    launcher=$(find_launcher mpirun.openmpi mpirun)
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    command=("$launcher" -n "$ranks" --oversubscribe --bind-to none
      ${SAMESTEP_MPI_PRELOAD:+-x LD_PRELOAD="$SAMESTEP_MPI_PRELOAD"})
    ;;
  *)
    echo "$1 was built without MPI" >&2
    exit 3
    ;;
esac
exec "${command[@]}" "$@"
