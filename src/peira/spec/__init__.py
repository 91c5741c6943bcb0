"""What is asked: cases, factors, agents, evaluators, limits; a study of them; and the files they come in."""
