// Package chat holds a conversation with an agent of a node, at a terminal or through pipes.
// `symbio run` and `symbio chat` use it once they have a node to talk to.
//
// One goroutine owns a conversation (conversation.run); two others only bring it events from the
// node and keys from the terminal. Events become rows of a transcriptView, which writes to a
// screen; keys become lines of a terminal.Editor; approvals become questions.
package chat
