"""The order in which a pipeline rank runs its chunks: src/parallel/pipeline_schedule.cc, which
tests/python/scaling_test.py compares with this, step by step.

    for forward, chunk, micro_batch in schedule_of(pipeline=4, chunks=2, rank=1, micro_batches=8): ...
"""


def _pass(pipeline, chunks, forward, k):
    chunk = k % (pipeline * chunks) // pipeline
    return forward, chunk if forward else chunks - 1 - chunk, k // (pipeline * chunks) * pipeline + k % pipeline


def schedule_of(pipeline, chunks, rank, micro_batches):
    passes, behind = micro_batches * chunks, pipeline - rank - 1
    warm_up = min(behind if chunks == 1 else behind * 2 + (chunks - 1) * pipeline, passes)
    steps = [_pass(pipeline, chunks, True, k) for k in range(warm_up)]
    for k in range(passes):
        if k + warm_up < passes:
            steps.append(_pass(pipeline, chunks, True, k + warm_up))
        steps.append(_pass(pipeline, chunks, False, k))
    return steps


def most_in_flight(steps, chunk):
    now = most = 0
    for forward, c, _ in steps:
        if c == chunk:
            now += 1 if forward else -1
            most = max(most, now)
    return most
