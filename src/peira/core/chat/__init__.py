"""What is said to models and by them: messages, templates, tools, reply schemas, transcripts, dialects."""
