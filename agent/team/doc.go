// Package team is an agent's sub-agents as its model works with them: it spawns them, gives them tasks, waits for results,
// says something to one that works, and stops them.
//
// The one idea: a task of a sub-agent runs beside the parent's own turns. The parent's model is told the result when it
// asks (wait_agents); exactly the same task is not given twice while it is being done. The team does not know where a
// sub-agent lives: a Handle stops and steers it.
//
// Guarantees: all sub-agents and their tasks end with Close. A Team is safe for concurrent use.
package team
