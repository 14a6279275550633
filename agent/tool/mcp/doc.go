// Package mcp is a client of the Model Context Protocol: it gives agents the tools of MCP servers,
// which are programs that speak the protocol on their standard input and output, or services at a
// URL.
//
// A server is foreign code. A Manager starts each server once for all agents of a node, when an
// agent first needs it, runs its program in the sandbox, reconnects when the connection is lost,
// and limits everything that it sends: lines, lists, schemas, descriptions and results. Nothing
// that a server sends grants a permission. Its annotations are not read, because they are only its
// own claims. If a tool differs from the version that was first used, a person is asked again, even
// where a rule allows the call.
//
// A server of a project's .mcp.json is started only after a person has trusted that very entry.
//
// The client offers servers little in return: a form for the person of an agent (elicitation), a
// question to the agent's model (sampling), which the rules or the person have to allow and the
// agent's budget pays, and the workspace as a root. The SDK marks the last two as deprecated; they
// are served as long as the SDK does. A tool that requires to be called as a task is called as one, except over
// streamable HTTP. Pictures are shown to models that accept them. Sound is described in words.
package mcp
