// Package definition reads agent files: Markdown with front matter that says what an agent is (spec:
// skills-orchestration.md, agents).
//
// The one idea: what a definition says of permissions, guardrail, sandbox and budget only takes away from what the node
// gives its agents. A file with any mistake is not used; each mistake is a Problem that names its line.
package definition
