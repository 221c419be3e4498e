#!/usr/bin/env bash
# Runs a command that must end with a given status within a given time, and say given words.
#
#   tests/mpi/expect.sh STATUS SECONDS TEXT COMMAND...
#
# STATUS: a number, or "any" for all but 0. TEXT: an extended regular expression, matched against all output.
# Exit status 77 (CTest: skipped) where the command was skipped.
set -uo pipefail
status=$1 seconds=$2 text=$3
shift 3
output=$(timeout -k 5 "$seconds" "$@" 2>&1)
code=$?
if [ "$code" -eq 124 ] && [ "$status" = any ]; then
  # Debian 12's mpirun sometimes hangs in a lock of its own after a rank was killed; twice in a row would be ours.
  output=$(timeout -k 5 "$seconds" "$@" 2>&1)
  code=$?
fi
printf '%s\n' "$output"
fail() { echo "expect.sh: $*"; exit 1; }

[ "$code" -eq 77 ] && exit 77
[ "$code" -eq 124 ] && fail "did not end within $seconds s"
if [ "$status" = any ]; then
  [ "$code" -ne 0 ] || fail "ended with status 0; expected a failure"
else
  [ "$code" -eq "$status" ] || fail "ended with status $code; expected $status"
fi
grep -Eq -- "$text" <<< "$output" || fail "did not say '$text'"
