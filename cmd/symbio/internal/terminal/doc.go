// Package terminal knows terminals: how large they are (size_*.go), how wide text is and how it is cut
// and wrapped (text.go). Package tui draws on them.
//
// Text that these functions return for display cannot move the cursor or change colors, whatever
// text they are given: control and invisible characters are removed.
package terminal
