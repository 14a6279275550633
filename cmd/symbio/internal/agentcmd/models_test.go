package agentcmd

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	symbiov1 "symbio/proto/symbio/v1"
)

func TestModelsSayWhatTheNodeLearntOfThem(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.Local)
	stamp := timestamppb.New(at)
	all := withHealth([]modelJSON{{Model: "openai:a"}, {Model: "openai:b"}, {Model: "openai:c"}}, []*symbiov1.ModelHealth{
		{Model: "openai:a", WaitUntil: stamp, LastUntil: stamp, Failures: 3, Why: "busy"},
		{Model: "openai:b", LastUntil: stamp, Why: "no key"},
		{Model: "anthropic:x", Failures: 1, Why: "cut"},
	})
	for i, want := range []string{"openai:a not asked until 15:04:05: busy", "openai:b asked last until 15:04:05: no key", "openai:c ", "anthropic:x one request tries: cut"} {
		row := all[i].row()
		if got := row[0] + " " + row[6]; got != want {
			t.Errorf("row %d says %q, want %q", i, got, want)
		}
	}
	if h := all[0].Health; all[2].Health != nil || !h.WaitUntil.Equal(at) || h.Failures != 3 || all[3].Provider != "anthropic" || !strings.Contains(all[3].Health.Why, "cut") {
		t.Errorf("health is %+v, and a model without a row is %+v", h, all[3])
	}
}
