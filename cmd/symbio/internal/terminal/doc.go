// Package terminal knows terminals: how wide text is and how it is cut and wrapped (text.go), which
// keys a person presses (keys.go), a line editor (editor.go), and a list to choose from
// (picker.go).
//
// Text that these functions return for display cannot move the cursor or change colors, whatever
// text they are given: control and invisible characters are removed. Editor and Picker work on keys
// and strings alone, so that tests need no terminal.
package terminal
