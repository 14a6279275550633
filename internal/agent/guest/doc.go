// Package guest makes a program of another maker, such as Claude Code, Codex or OpenCode, an agent of the community. It drives
// the program by the Agent Client Protocol (ACP) on its standard input and output.
//
// The one idea: the program is the model of an ordinary agent. A prompt of ACP lasts over many requests of package
// conversation: whenever the program wants something of its client, such as a permission, a file, a terminal or a tool of
// the community, the answer to the present request ends with that as a call. The agent's tool.Set judges, asks, records and
// runs it as any other call, and the next request brings the result back to the program, which goes on. So rules, guardrails,
// modes, approvals, budgets, sessions, steering, lending and the tree need to know nothing of ACP.
//
// Guarantees: nothing that the program sends runs before the agent's stages have let it. The program has no other tools of
// this node. Its messages are hostile input: at most 256 messages and 32 MiB of them wait at a time, one is at most 8 MiB,
// and then the program waits. The program itself runs where Host starts it, which is a sandbox.
//
// Limits: a terminal of ACP is one command, whose output comes when it has ended. A whole script gets no
// variables of its terminal.
// A permission that the program asks for is for people and rules to decide; what the program does without asking, its sandbox
// alone holds.
package guest
