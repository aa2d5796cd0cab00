"""The times of two pieces of work against each other, taken inside a script."""

# The machine's speed changes within seconds: a turn has about the same one for both, and the median turn counts.
TURNS = """
import statistics, time

def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start

def times_as_long(first, second, turns):
    ratios = []
    for turn in range(turns):
        taken = {work: timed(work) for work in ((second, first) if turn % 2 else (first, second))}
        ratios.append(taken[first] / taken[second])
    return statistics.median(ratios)
"""
