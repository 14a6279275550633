package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/cmd/symbio/internal/node"
	symbiov1 "symbio/proto/symbio/v1"
)

// desk is a node's side of approvals.
type desk struct {
	symbiov1.ControlClient
	events []*symbiov1.Event
	err    error // of Answer
	got    *symbiov1.AnswerRequest
}

func (d *desk) Answer(_ context.Context, r *symbiov1.AnswerRequest, _ ...grpc.CallOption) (*symbiov1.AnswerReply, error) {
	d.got = r
	return &symbiov1.AnswerReply{}, d.err
}

func (d *desk) Events(ctx context.Context, _ *symbiov1.EventsRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[symbiov1.Event], error) {
	return &told{ctx: ctx, events: d.events}, nil
}

// told is a stream of events that stays open.
type told struct {
	grpc.ClientStream
	ctx    context.Context
	events []*symbiov1.Event
}

func (s *told) Recv() (*symbiov1.Event, error) {
	if len(s.events) == 0 {
		<-s.ctx.Done()
		return nil, s.ctx.Err()
	}
	e := s.events[0]
	s.events = s.events[1:]
	return e, nil
}

func approve(t *testing.T, d *desk, answers func(context.Context) (string, error)) string {
	t.Helper()
	var shown bytes.Buffer
	a := &App{Err: &shown}
	e := node.Event{Time: time.Now(), Type: "approval", Data: []byte(`{"id":"7","name":"worker","for":["planner"],"tool":"Write","args":{"file_path":"a\u001b[31m"},"why":"No rule.","digest":"d1","rules":["Write(/a)"]}`)}
	if err := a.approve(t.Context(), d, answers, e); err != nil {
		t.Fatal(err)
	}
	return shown.String()
}

func TestAPersonAnswersWithALetter(t *testing.T) {
	for said, want := range map[string][3]bool{"y": {true, false, false}, "YES": {true, false, false}, "a": {true, true, false}, "always": {true, true, false}, "l": {true, false, true}, "n": {}, "": {}, "yess": {}} {
		d := &desk{}
		shown := approve(t, d, func(context.Context) (string, error) { return said, nil })
		if got := [3]bool{d.got.GetAllow(), d.got.GetAlways(), d.got.GetLasting()}; got != want || d.got.GetId() != "7" || d.got.GetDigest() != "d1" || d.got.GetBy() != "terminal" {
			t.Errorf("%q: answered %v, want allow, always and lasting %v", said, d.got, want)
		}
		if !strings.Contains(shown, "worker <- planner wants to use Write") || !strings.Contains(shown, `"file_path":"a\u001b[31m"`) || strings.Contains(shown, "\x1b") || !strings.Contains(shown, "l keeps: Write(/a)\n") {
			t.Errorf("shown: %q", shown)
		}
	}
}

func TestThePromptGivesWayToAnAnswerFromElsewhere(t *testing.T) {
	d := &desk{events: []*symbiov1.Event{{Type: "answered", Data: []byte(`{"id":"6"}`)}, {Type: "answered", Data: []byte(`{"id":"7"}`)}}}
	shown := approve(t, d, func(ctx context.Context) (string, error) {
		<-ctx.Done() // the person says nothing
		return "", context.Cause(ctx)
	})
	if d.got != nil || !strings.Contains(shown, "answered elsewhere") {
		t.Errorf("answered %v; shown: %q", d.got, shown)
	}
	d = &desk{err: status.Error(codes.NotFound, "gone")}
	if shown := approve(t, d, func(context.Context) (string, error) { return "y", nil }); !strings.Contains(shown, "answered elsewhere") {
		t.Errorf("in the same moment: shown: %q", shown)
	}
}

func TestACommandIsShownLineByLineWithNothingHidden(t *testing.T) {
	for args, want := range map[string]string{
		`{"command":"echo a \u0026\u0026 b\nrm x\u202e"}`: "  echo a && b\n  rm x\\u202e",
		`{"command":"log","args":["-p"]}`:                 `  {"args":["-p"],"command":"log"}`,
		`{"file_path":"<a>"}`:                             `  {"file_path":"<a>"}`,
		`{"n":12345678901234567890}`:                      `  {"n":12345678901234567890}`,
		`not json`:                                        "  not json",
	} {
		if got := indented([]byte(args)); got != want {
			t.Errorf("%s is shown as\n%s\nwant\n%s", args, got, want)
		}
	}
}
