"""Tool loops: a model that calls tools until it is done."""
