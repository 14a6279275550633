// Package agent is an agent with a model: a definition (Markdown with front matter), a loop of model
// and tools, a budget, and the tools by which it makes sub-agents, messages, awaits and stops them.
//
// The one idea: an agent is a member of the community like any other. It is given tasks as signals,
// one at a time, answers with text, and what it may do is the strictest verdict over itself and all
// its parents. What a definition says of rules, sandbox and budget is one more limit, and only takes away. A model only
// ever wishes; a guarded tool.Set decides and acts.
//
// While it works it can be steered and interrupted, through its Factory and by its id: what is said reaches its model between
// two turns, and an interrupted agent stays and remembers what it did.
//
// Its parts that know no agent are packages of their own: definition (agent files), budget (accounts), team (sub-agents and
// their tasks), lending (agents of other nodes, and for them).
//
// Guarantees: results of a turn's tool calls come in the order of the calls; a task ends in an answer
// or a typed error and never runs longer than its budget; an agent's children, skills and grants end
// with it, however it ends. It does not keep its conversation over a restart.
package agent
