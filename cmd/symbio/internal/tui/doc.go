// Package tui draws a conversation at a terminal at which a person types, with bubbletea.
//
// The one idea: what is finished is printed into the terminal's own scrollback, where it can be
// scrolled and copied, and only the last rows are redrawn: the unfinished text, running calls, the
// plan, agents at work, the waiting question, the input and the status. Larger things open
// above all of it (overlay.go) and go again.
//
// model is pure: messages go in through Update, rows come out of View, and what the person does goes
// to the conversation (package chat) as chat.Input. Text of models, tools and other nodes passes
// clean before it is drawn, so that it cannot move the cursor or change colors.
package tui
