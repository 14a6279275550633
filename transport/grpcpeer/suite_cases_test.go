// The suite that every community.Network passes. A case knows communities only: it asks a Fixture for the network ends
// of a few nodes, runs a community on each, and checks the contract: who is seen, what a call
// carries, which error says what, and how fast a lost node is noticed.
//
// The cases of one run are independent of each other and run one after another, each on a fresh Fixture and in a
// testing/synctest bubble, where seconds cost nothing and bounds are exact but for Slack: a Fixture has no real sockets.
// A bubble's clock starts on 2000-01-01; make certificates inside it. The suite does not test how nodes find or
// authenticate each other.

package grpcpeer_test

import (
	"cmp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"symbio/community"
)

// Suite says how to make Fixtures.
type Suite struct {
	// Slack is added to every bound on time. Default: 10 ms, because what is due at the very bound is
	// in time.
	Slack time.Duration
	// New makes a network with no nodes, in the bubble of a case. Clean up through t.Cleanup; the
	// suite ends the nodes before that.
	New func(t *testing.T) Fixture
}

// Fixture is a network for the nodes of one case. What more it can do it says by implementing
// Killer, Partitioner, Freezer or Shutter; a case that needs what it cannot do is skipped, with the reason.
type Fixture interface {
	// Join makes the network end of the node called name, and sees to it that it and every other
	// node of this fixture find each other, sooner or later. The suite calls Network.Run on it once,
	// and ends that Run's context for an orderly end. Joining again under a name whose node has
	// ended, or was killed, makes the same node anew: same ID, fresh Network.
	Join(t *testing.T, name string) Node
}

// Node is one node's end of the network.
type Node struct {
	ID      community.NodeID
	Network community.Network
}

// Killer is a Fixture that can end a node as kill -9 would.
type Killer interface {
	// Kill cuts the node off at once, without a goodbye: its connections break (a reset), and
	// nothing reaches it or leaves it any more. Its Network.Run may go on until its context ends.
	Kill(id community.NodeID)
}

// Partitioner is a Fixture that can cut the network in two without resetting a connection.
type Partitioner interface {
	// Partition lets nothing through between the given nodes and all others.
	Partition(ids ...community.NodeID)
	// Heal undoes every Partition.
	Heal()
}

// Freezer is a Fixture that can stop a node's clockwork for a while, as a closed lid would.
type Freezer interface {
	Freeze(id community.NodeID)
	Wake(id community.NodeID)
}

// Shutter is a Fixture that can forbid one direction, as a NAT or a firewall would.
type Shutter interface {
	// OnlyDialsOut lets nobody open a connection to the node of that name, which may join later.
	OnlyDialsOut(name string)
}

// runSuite runs every case as a subtest of t.
func runSuite(t *testing.T, s Suite) {
	s.Slack = cmp.Or(s.Slack, 10*time.Millisecond)
	for _, c := range slices.Concat(cases, streamCases) {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &caseLAN{t: t, fixture: s.New(t), slack: s.Slack}
				defer l.end()
				c.run(t, l)
			})
		})
	}
}

type testCase struct {
	name string
	run  func(t *testing.T, l *caseLAN)
}

// cases are the suite, simplest first.
var cases = []testCase{
	{"CatalogIsSeen", catalogIsSeen},
	{"ChangesAreSeen", changesAreSeen},
	{"LargeCatalogIsSeen", largeCatalogIsSeen},
	{"SendIsAnswered", sendIsAnswered},
	{"InvokeIsAnswered", invokeIsAnswered},
	{"TraceTravels", traceTravels},
	{"CallsGoBothWays", callsGoBothWays},
	{"ManyCallersAtOnce", manyCallersAtOnce},
	{"CancellationReachesTheAgent", cancellationReachesTheAgent},
	{"DeadlineReachesTheAgent", deadlineReachesTheAgent},
	{"ErrorsComeThrough", errorsComeThrough},
	{"PanicIsAgentFailed", panicIsAgentFailed},
	{"LargeMessageIsRefused", largeMessageIsRefused},
	{"FullMailboxIsBusy", fullMailboxIsBusy},
	{"NobodyIsAllowedByDefault", nobodyIsAllowedByDefault},
	{"InputIsCheckedBeforeItIsSent", inputIsCheckedBeforeItIsSent},
	{"ProviderChecksToo", providerChecksToo},
	{"FloodIsRefused", floodIsRefused},
	{"CapabilityIsBusy", capabilityIsBusy},
	{"TellArrivesInOrder", tellArrivesInOrder},
	{"TellThatFailsIsReported", tellThatFailsIsReported},
	{"TellToASlowAgentIsBounded", tellToASlowAgentIsBounded},
	{"TellOnALostLinkIsReported", tellOnALostLinkIsReported},
	{"ForgedMembersAreRefused", forgedMembersAreRefused},
	{"GoodbyeIsLeft", goodbyeIsLeft},
	{"KilledIsUnavailableThenLeft", killedIsUnavailableThenLeft},
	{"KilledComesBackWithTheSameID", killedComesBackWithTheSameID},
	{"FrozenComesBackAsItWas", frozenComesBackAsItWas},
	{"PartitionHeals", partitionHeals},
	{"WhoOnlyDialsOutIsCalled", whoOnlyDialsOutIsCalled},
	{"WhoOnlyDialsOutIsLostAndComesBack", whoOnlyDialsOutIsLostAndComesBack},
}
