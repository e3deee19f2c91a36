"""Other kernels, rights and limits, in virtual machines: see command.py."""
