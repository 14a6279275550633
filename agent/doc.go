// Package agent is an agent with a model: a definition (Markdown with front matter), a loop of model
// and tools, a budget, and the tools by which it makes sub-agents, messages, awaits and stops them.
//
// The one idea: an agent is a member of the community like any other. It receives tasks as signals,
// one at a time, and answers with text. A call is judged by the strictest verdict over the agent
// and all its parents. Rules, sandbox and budget in a definition only restrict. A model can only
// request a call; a guarded tool.Set decides about it and runs it.
//
// While an agent works it can be steered and interrupted by its id, with methods of its Factory.
// The model reads a steering text between two turns. An interrupted agent stays alive and remembers
// its past work.
//
// Packages below this one do not know Agent: definition reads agent files, budget keeps accounts,
// team manages sub-agents and their tasks, lending lends agents to other nodes and borrows theirs.
//
// Guarantees: results of a turn's tool calls come in the order of the calls; a task ends in an answer
// or a typed error and never runs longer than its budget; an agent's children, skills and grants end
// with it, however it ends. It does not keep its conversation over a restart.
package agent
