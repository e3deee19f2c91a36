//! Names of kernels as a person reads them.
