"""Small training-like programs of which we know what holds them back: see README.md."""
