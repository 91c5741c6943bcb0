"""The mathematics that designs are constructed with: finite fields, Hadamard matrices, orthogonal arrays."""
