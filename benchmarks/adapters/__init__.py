"""What benchmarks/adapter_memory.py compares with."""
