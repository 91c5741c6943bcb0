"""Quality of judges: agreement with human labels, biases, corrected means."""
