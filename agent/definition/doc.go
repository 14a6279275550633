// Package definition reads agent files: Markdown with front matter that says what an agent is.
//
// The one idea: permissions, guardrail, sandbox and budget in a definition only restrict what the
// node allows its agents. A file with any mistake is not used; each mistake is a Problem that names
// its line.
package definition
