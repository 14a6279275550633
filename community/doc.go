// Package community makes the agents of several machines one community: everyone can be seen, sent
// signals and asked for capabilities, wherever they live.
//
// The one idea: a community is one machine's view of everyone. Its own agents are actors of this
// process. The members of other nodes are what an authenticated peer says of itself, for as long
// as the connection it said it over lasts: a lease.
//
//	  Spawn  Terminate          Send  Invoke         Subscribe  Members
//	       |                       |                        |
//	.------v-----------------------v------------------------v------.
//	|  residents   our agents      |  neighbours   other nodes,    |
//	|  offers      our             |  their leases, members and    |
//	|              capabilities    |  capabilities                 |
//	'------^-----------------------^-----------------------|-------'
//	       | Serve                 | Attach: a Lease       | Invoke
//	.------|-----------------------|-----------------------v-------.
//	|      Network: transport/grpcpeer or transport/memory         |
//	'--------------------------------------------------------------'
//
// Guarantees. Every operation ends in a result or a typed error (errors.go), and none waits for a
// peer longer than the Network takes to notice that it is lost. An agent gets one signal at a time, in
// the order in which they were accepted. Changes reach each subscriber in the order in which they
// happened; one who falls behind is told so, and given the whole list anew. All methods may be
// called by many goroutines at once, also from within an agent's Receive. Nothing is delivered
// twice, and nothing is retried. A provider sees only input that fits the schema it announced. Who listens
// to a call (InvokeStream) holds up nobody but that call's output.
//
// What it does not do: find nodes, prove who they are, or carry bytes (that is the Network), decide
// what an agent may do with tools (security/permission), or remember anything after Run has ended.
package community
