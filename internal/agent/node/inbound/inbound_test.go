package inbound

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"symbio/agent/event"
	"symbio/community"
	"symbio/internal/security/audit"
	"symbio/internal/security/permission/authorize"
)

// heard is a node that takes text.* from anybody, and its record.
func heard(t *testing.T) (*Authorizer, string) {
	t.Helper()
	in, err := authorize.New([]authorize.Rule{{From: "*", Invoke: []string{"text.*"}, Send: []string{"task"}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	log, err := audit.Open(dir, audit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	self := nodeNamed("aa")
	n := New(Config{Node: self, Rules: func() authorize.Rules { return in }, Peer: noPeer, Append: log.Append, Events: event.NewStream("a")})
	return n, dir
}

// noPeer stands for a node without connections.
func noPeer(community.NodeID) (community.Peer, bool) { return community.Peer{}, false }

func TestInboundDecisionsAreRecordedAndReported(t *testing.T) {
	n, dir := heard(t)
	tap := n.cfg.Events.Subscribe(time.Time{})
	defer tap.Close()
	caller := nodeNamed("bb")
	from := community.Peer{ID: caller, Name: "kitchen", Authority: "lab"}
	requester := []string{string(caller), "origin", string(caller) + "/" + "x"}
	for _, tt := range []struct {
		call    community.Call
		allowed bool
		want    string // of the event
	}{
		{community.Call{Capability: "text.count", Requester: requester}, true, "invoke text.count"},
		{community.Call{Capability: "disk.wipe", Requester: requester}, false, "invoke disk.wipe"},
		{community.Call{Capability: "agent.perception.task", Member: "m", Requester: requester[:1]}, true, "send task"},
	} {
		for range 3 {
			if err := n.Authorize(from, tt.call); (err == nil) != tt.allowed {
				t.Fatalf("%s: %v", tt.call.Capability, err)
			}
		}
		e, err := tap.Next(t.Context())
		if err != nil || e.Type != "decision" || e.Name != "kitchen" || e.Agent != string(tt.call.Member) {
			t.Errorf("%s: event %+v, %v", tt.call.Capability, e, err)
		}
		f := event.PartOf[event.Decision](e)
		if f.Kind != "inbound" || f.From != string(caller) || f.Tool+" "+f.Capability+f.Perception != tt.want || f.Approved != tt.allowed {
			t.Errorf("%s: event %+v", tt.call.Capability, e)
		}
	}
	if err := n.Flush(); err != nil {
		t.Fatal(err)
	}
	var all []audit.Entry
	if _, err := audit.Verify(t.Context(), dir, func(e audit.Entry) error { all = append(all, e); return nil }); err != nil {
		t.Fatal(err)
	}
	calls := map[bool]uint64{}
	for _, e := range all {
		calls[e.Approved] += max(e.Count, 1)
		if e.Kind != audit.KindInbound || e.Agent != string(caller) || e.Node != string(n.cfg.Node) || e.Approved != (e.Verdict == "allow") || e.Why == "" {
			t.Errorf("recorded is %+v", e)
		}
	}
	if len(all) != 6 || calls[true] != 6 || calls[false] != 3 || strings.Join(all[0].For, " ") != string(caller)+"/x origin" {
		t.Errorf("%d records of %v calls, the first for %v", len(all), calls, all[0].For)
	}
}

func TestCallThatCannotBeRecordedIsRefused(t *testing.T) {
	n, _ := heard(t)
	full := &fs.PathError{Op: "write", Path: "/secret/place", Err: syscall.ENOSPC}
	n.calls = audit.NewCalls(audit.CallsConfig{Append: func(audit.Entry) error { return full }})
	if err := n.Authorize(community.Peer{ID: nodeNamed("bb")}, community.Call{Capability: "text.count"}); !errors.Is(err, community.ErrUnavailable) || err.Error() != "unavailable: cannot record the decision: no space left on device" {
		t.Errorf("got %v, want the reason, not that it is denied", err)
	}
}
