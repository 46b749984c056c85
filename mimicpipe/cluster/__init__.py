"""One dataset from several processes: who makes which attempts, what is settled, and what becomes of a lost worker.

    driver (run.py)                                     worker w of W, in a process of its own
    ───────────────────────────────────────             ────────────────────────────────────────────────
    Assignment: share w, w + W, ...            ──►      ShareRun: env, pool, generator, the ordinary pipeline
    Order: how far to go, when to stop         ──►      its episodes ──► its shard of the staging folder
    SharedBudget settles in attempt order      ◄──      Report: attempts that are durable, metrics
    attempts.jsonl · assembles all shards

The driver waits for reports; workers wait for room to go on. A worker that is lost gets a successor, which begins
behind the attempts that were reported.
"""
