// Package format reads the format of skills: the front matter and the text of a SKILL.md.
//
// The one idea: every deviation from the specification is a typed Diagnostic, and the Level decides
// which of them are errors. Nothing is dropped or mended without one.
//
// Guarantees: pure functions of their arguments, safe for concurrent use. No input makes them panic,
// and their time is linear in its size. What is given to YAML is at most 64 KiB, read as a tree of
// nodes: aliases, merge keys and tags are refused rather than resolved. A rule in allowed-tools is
// granted only if the narrow grammar for skills reads it and its text is not a repair.
//
// It opens no file and grants nothing: package skills decides which rules an agent gets.
package format
