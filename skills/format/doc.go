// Package format reads the format of skills: the front matter and the text of a SKILL.md.
//
// Every deviation from the specification is a typed Diagnostic, and the Level decides which of them
// are errors. Nothing is dropped or repaired without one.
//
// The functions are pure and safe for concurrent use. No input makes them panic, and their time is
// linear in its size. The YAML library gets at most 64 KiB, as a tree of nodes: aliases, merge keys
// and tags are refused and not resolved. A rule in allowed-tools is granted only if the narrow
// grammar for skills accepts it and its text is not a repair.
//
// The package opens no file and grants nothing: package skills decides which rules an agent gets.
package format
