// Package trust keeps which skills a person has trusted that grant nothing by themselves: those of a project,
// and those that came from another machine.
//
// The one idea: a record is about one SKILL.md, by its directory and the SHA-256 of its content, and about the
// rules that the person was shown. Another content or another place is another skill, and a rule that was not
// shown then is not granted later, whatever the rule grammar or a setting makes of it.
//
// Guarantees: each record is a file of its own, written whole or not at all, so that processes may trust and
// revoke at the same time. A file that is not exactly what this package writes, of the right name, for this
// user only, is an error, and an error is never trust. What is read and listed is bounded.
//
// It asks no person, and covers the SKILL.md alone: of a project's skill the other files may change, and
// a rule that runs one of them runs it as it is then. Of a skill from another node package share checks all.
package trust
