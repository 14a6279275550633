// Package chat holds a conversation with an agent of a node, at a terminal or through pipes.
// `symbio run` and `symbio chat` use it once they have a node to talk to.
//
// One goroutine owns a conversation (conversation.run); others only bring it events from the node and
// what the person does. Events become rows of a transcriptView, which writes to a screen, or go to a
// Terminal, which package tui draws; approvals become questions; lines that begin with a slash are
// commands (commands.go).
package chat
