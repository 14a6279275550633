package chat

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/event"
	"symbio/internal/agent/event/eventtest"
	symbiov1 "symbio/proto/symbio/v1"
)

// desk is a node's side of approvals.
type desk struct {
	symbiov1.ControlClient
	err error // of Answer
	got []*symbiov1.AnswerRequest
}

func (d *desk) Answer(_ context.Context, r *symbiov1.AnswerRequest, _ ...grpc.CallOption) (*symbiov1.AnswerReply, error) {
	d.got = append(d.got, r)
	return &symbiov1.AnswerReply{}, d.err
}

// asked are questions to a person, who is shown what is collected.
func asked(t *testing.T, d *desk, ids ...string) (*questions, *[]string) {
	t.Helper()
	var shown []string
	q := &questions{
		client: d,
		show:   func(q Question) { shown = append(shown, q.ID+": "+QuestionText(q)+"\n"+choices(q)) },
		notify: func(text string) { shown = append(shown, text) }, release: func() {},
	}
	for _, id := range ids {
		q.event(eventtest.New("approval", "", `{"id":"`+id+`","name":"worker","for":["planner"],"tool":"Write","args":{"file_path":"a\u001b[31m"},"why":"No rule.","digest":"d1","rules":["Write(/a)"]}`))
	}
	return q, &shown
}

func TestQuestionAnswers(t *testing.T) {
	for said, want := range map[string][3]bool{"y": {true, false, false}, "YES": {true, false, false}, "a": {true, true, false}, "always": {true, true, false}, "l": {true, false, true}, "n": {}, "": {}, "yess": {}} {
		d := &desk{}
		q, shown := asked(t, d, "7")
		if err := q.answer(t.Context(), said); err != nil || len(d.got) != 1 || len(q.open) != 0 {
			t.Fatalf("%q: %v; answered %v, still open %v", said, err, d.got, q.open)
		}
		got := d.got[0]
		if is := [3]bool{got.GetAllow(), got.GetAlways(), got.GetLasting()}; is != want || got.GetId() != "7" || got.GetDigest() != "d1" || got.GetBy() != "terminal" {
			t.Errorf("%q: answered %v, want allow, always and lasting %v", said, got, want)
		}
		text := strings.Join(*shown, "\n")
		if !strings.Contains(text, "worker <- planner wants to use Write") || !strings.Contains(text, "\n  file_path: a\\x1b[31m\n") || strings.Contains(text, "\x1b") || !strings.Contains(text, "l keeps: Write(/a)\n") {
			t.Errorf("shown: %q", text)
		}
	}
}

func TestQuestionTakesOffersByNumber(t *testing.T) {
	for said, want := range map[string]*symbiov1.AnswerRequest{
		"1": {Allow: true, Offer: 1}, "2l": {Allow: true, Offer: 2, Lasting: true}, "3": {}, "0": {}, "-1": {}, "1x": {}, "": {},
	} {
		d := &desk{}
		q, shown := asked(t, d)
		data := `{"id":"7","tool":"Bash","args":{},"digest":"d","offers":[{"kind":"changes","text":"changes\u202e","rules":["Write(./*)","Edit(./*)"],"covers":["Write a"]},{"kind":"words","text":"commands","rules":["Bash(go test:*)"]}]}`
		q.event(eventtest.New(event.TypeApproval, "", data))
		if err := q.answer(t.Context(), said); err != nil {
			t.Fatal(err)
		}
		if want.Id, want.Digest, want.By = "7", "d", "terminal"; len(d.got) != 1 || d.got[0].String() != want.String() {
			t.Errorf("%q: answered %v, want %v", said, d.got, want)
		}
		if text := (*shown)[0]; !strings.Contains(text, "  1 for the session, 1l from now on: changes\\u202e\n      allows Write(./*), Edit(./*)\n      also covers Write a\n  2 for") {
			t.Errorf("shown: %q", text)
		}
	}
}

func TestQuestionAnsweredElsewhereShowsNext(t *testing.T) {
	d := &desk{}
	q, shown := asked(t, d, "7", "8", "9")
	for _, id := range []string{"6", "8", "7"} {
		q.event(event.Event{Type: event.TypeAnswered, Part: event.Answer{ID: id}})
	}
	if d.got != nil || len(q.open) != 1 || q.open[0].ID != "9" {
		t.Errorf("answered %v, open are %v; want 9 alone", d.got, q.open)
	}
	if got := *shown; len(got) != 3 || !strings.HasPrefix(got[0], "7: ") || got[1] != answeredElsewhere || !strings.HasPrefix(got[2], "9: ") {
		t.Errorf("shown: %q", got)
	}
	d.err = status.Error(codes.NotFound, "gone")
	if err := q.answer(t.Context(), "y"); err != nil || (*shown)[3] != answeredElsewhere || len(q.open) != 0 {
		t.Errorf("in the same moment: %v; shown: %q", err, *shown)
	}
}
