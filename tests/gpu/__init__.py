"""What `on_gpu.py` is made of: the check of trainmon on a machine with a real device."""
