package symbiov1_test

import (
	"encoding/json"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	symbiov1 "symbio/proto/symbio/v1"
)

func TestApprovalAsJSON(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	for want, a := range map[string]*symbiov1.Approval{
		`{"id":"1-ab","agent":"aa","name":"\"args\":\"\"","for":["b"],"tool":"Write","args":{"n":12345678901234567890},"rule":"","why":"No rule.",` +
			`"asked":"2026-01-02T03:04:05Z","deadline":"2026-01-02T03:04:05Z","node":"cc","node_name":"c","digest":"ab","rules":["Write(/a)"],"diff":"","offers":[],"so_far":""}`: {
			Id: "1-ab", Agent: "aa", Name: `"args":""`, For: []string{"b"}, Tool: "Write", Args: []byte(`{"n":12345678901234567890}`), Why: "No rule.",
			Asked: at, Deadline: at, Node: "cc", NodeName: "c", Shown: []byte(`{"a":1}`), Digest: "ab", Rules: []string{"Write(/a)"},
		},
		`{"id":"2-cd","agent":"","name":"","for":[],"tool":"","args":null,"rule":"","why":"",` +
			`"asked":"1970-01-01T00:00:00Z","deadline":"1970-01-01T00:00:00Z","node":"","node_name":"","digest":"","rules":[],"diff":"","offers":[],"so_far":""}`: {Id: "2-cd"},
	} {
		if got, err := json.Marshal(a); err != nil || string(got) != want {
			t.Errorf("approval = %s, %v\nwant %s", got, err, want)
		}
	}
}
