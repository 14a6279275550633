// Package chat holds a conversation with an agent of a node at a terminal or through pipes: what `symbio run` and
// `symbio chat` do once they have a node to talk to.
//
// One goroutine has all of a conversation; others only bring it events, keys and lines. Events become rows in a
// transcriptView, which writes to a Screen; keys become lines in a terminal.Editor; approvals become questions.
package chat
