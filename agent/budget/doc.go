// Package budget accounts for what a tree of agents uses: agents that live, model calls, tokens,
// cost, time.
//
// The one idea: each agent has an Account. An account has a share of its own, set aside from the
// account above, or draws on the nearest account above that has one. The most that a model call may
// cost is reserved before the call and settled after it. So no limit is ever exceeded, and the
// shares of a tree always sum to the whole.
//
// Accounts and tasks are safe for concurrent use.
package budget
