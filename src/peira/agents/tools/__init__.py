"""What models may be given as tools: functions, a sandbox with files, MCP servers."""
