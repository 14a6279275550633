package inbound

import (
	"strings"
	"testing"
	"time"

	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/security/audit"
	"symbio/internal/security/permission/authorize"
)

// BenchmarkAuthorize is the decision about a call of another node, recorded. Its floor is the decision without a
// record; a call over Link takes several times as long.
func BenchmarkAuthorize(b *testing.B) {
	self, caller := nodeNamed("aa"), nodeNamed("bb")
	log, err := audit.Open(b.TempDir(), audit.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	rules, err := authorize.New([]authorize.Rule{{From: "local", Invoke: []string{"*"}}})
	if err != nil {
		b.Fatal(err)
	}
	n := New(Config{Node: self, Rules: func() authorize.Rules { return rules }, Peer: noPeer, Append: log.Append, Events: event.NewStream("a")})
	from := community.Peer{ID: caller, Authority: "local"}
	call := community.Call{Capability: "text.count", Requester: []string{string(caller), string(caller) + "/" + strings.Repeat("cd", 16)}}
	b.ReportAllocs()
	var took, least time.Duration
	for b.Loop() {
		begun := time.Now()
		for range 100 {
			if err := n.Authorize(from, call); err != nil {
				b.Fatal(err)
			}
		}
		took += time.Since(begun)
		begun = time.Now()
		for range 100 {
			n.cfg.Rules().JudgeChain(n.principals(nil, from, call.Requester), authorize.KindInvoke, call.Capability)
		}
		least += time.Since(begun)
	}
	b.ReportMetric(float64(took-least)/100/float64(b.N), "ns-more/call")
	b.ReportMetric(float64(took)/float64(least), "x-floor")
}
