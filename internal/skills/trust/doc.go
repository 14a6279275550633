// Package trust stores which skills a person has trusted, of those that grant nothing by
// themselves: skills of a project, and skills from another machine.
//
// A record is about one SKILL.md, by its directory and the SHA-256 of its content, and about the
// rules that the person was shown. Another content or another place is another skill. A rule that
// was not shown is not granted later, even if the rule grammar or a setting changes.
//
// Each record is a file of its own, written completely or not at all, so that processes may trust
// and revoke at the same time. A file counts only if it is exactly as this package writes it, with
// the right name and for this user only. Any other file is an error, and an error is never trust.
// The number and the size of the records are bounded.
//
// The package asks no person. For a project's skill it covers the SKILL.md alone: the other files
// may change, and a rule that runs one of them runs its present content. For a skill of another
// node, package share checks all files.
package trust
