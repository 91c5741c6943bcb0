"""What a design can and cannot tell: aliasing, balance, efficiency, power."""
