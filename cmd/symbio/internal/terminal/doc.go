// Package terminal knows terminals: how wide text is and how it is cut and wrapped, the keys that a person presses, a line
// editor, and a list to choose from. What it shows cannot move the cursor, whatever text it is given.
package terminal
