"""The asyncio pipeline: queues, the env loop, the budget, telemetry. Knows no simulator and no file format."""
