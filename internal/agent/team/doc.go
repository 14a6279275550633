// Package team manages an agent's sub-agents for its model: the tools that spawn them, give them
// tasks, wait for results, steer them, and stop them.
//
// A task of a sub-agent runs in the background of the parent's own turns. The parent's model reads
// the result when it calls wait_agents. The same task is not given twice at the same time. The team
// does not know where a sub-agent runs: a Handle stops and steers it.
//
// All sub-agents and their tasks end with Close. A Team is safe for concurrent use.
package team
