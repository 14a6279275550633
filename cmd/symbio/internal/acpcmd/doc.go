// Package acpcmd serves a node's agents to an editor over the Agent Client Protocol: JSON-RPC on standard input and output.
// The editor is the client, and symbio its agent.
//
// Each session of the editor is a conversation with an agent of a node, as `symbio chat` holds one. Its events become updates of
// the session (view.go), and its approvals become requests for permission. An editor that ends its output ends all conversations.
//
// The package reads lines of at most maxLine bytes, holds at most maxSessions sessions, and answers malformed input with errors of
// JSON-RPC. It uses neither the files nor the terminals of the editor: the agent works on the files of its workspace.
package acpcmd
