"""Report formats: HTML, Markdown, LaTeX, PDF."""
