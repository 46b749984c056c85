"""Metric sinks: metrics.jsonl always, and W&B or TensorBoard."""
