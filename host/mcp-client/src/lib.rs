//! Tools of other MCP servers and of discovery commands, as tools of ours.
