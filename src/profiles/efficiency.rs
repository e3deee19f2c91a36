//! How well the busy time is used: floating-point operations and bytes of operators whose shapes were recorded, beside the GPU's peaks.
