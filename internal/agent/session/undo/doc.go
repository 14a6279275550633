// Package undo puts files back as they were before the agents of a session changed them. A Plan says
// what an undo will do, with the difference of each file; Apply does it.
//
// Guarantees: a file whose content is not the one that the session left is not touched, so that the
// change of a person or of another program is never lost. A file is replaced whole or not at all.
// Nothing outside of the session's directory is touched, and nothing behind a symbolic link. What an
// undo replaces is recorded before it is replaced, so that an undo can be undone (Redo).
//
// Only the changes of Write, Edit and MultiEdit are recorded, changes by commands are not. Directories
// that were made for a new file stay. Changes on other nodes, by sub-agents there, are not known here.
package undo
