// Package budget accounts for what a tree of agents uses: agents that live, model calls, tokens,
// cost, time.
//
// The one idea: each agent has an Account. An account has a share of its own, set aside from the
// account above, or draws on the nearest account above that has one. The most that a model call may
// cost is reserved before the call and settled after it. So no limit is ever exceeded, and the
// shares of a tree always sum to the whole.
//
// Loans to other nodes set calls, tokens and cost aside as a whole, because the other node meters them. Without a number the n-th of
// those that are open at once has 1/(n(n+1)) of the whole, and 1/(n+1) stays with the parent; what a loan does not use is the
// parent's again when it ends. So many at once get little: 1,000 calls are enough for about 30. A borrower that opens many should
// give each a number. More would take a lender that asks for amounts as it asks for places (Loan.OpenElsewhere); an overdraft that
// is settled at the end would exceed limits when nodes are lost.
//
// Accounts and tasks are safe for concurrent use.
package budget
