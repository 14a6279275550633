// Package mcp gives agents the tools of MCP servers: programs that speak the Model Context Protocol on their standard
// input and output, or at a URL.
//
// The one idea: a server is a stranger that is let in on purpose. A Manager starts each server once for all agents of a
// node, when the first one needs it, holds its program in the sandbox, connects again when it is lost, and bounds all
// that it says: lines, lists, schemas, descriptions, results. Nothing that a server sends grants anything (its
// annotations are hints of a stranger, and are not read), and a tool that is no longer what it was when somebody first
// let it run is asked about again, whatever rule allows it.
//
// A server of a project's .mcp.json is started only after a person has trusted that very entry (security.md D12).
//
// It does not offer servers anything back: no sampling, no elicitation, no roots. Prompts of servers are not shown.
// A tool that has to be called as a task is called as one, except over streamable HTTP.
// Pictures are shown to a model that takes them; sound is described.
package mcp
