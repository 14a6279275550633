package approvals

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/tool"
	"symbio/internal/security/standing"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// desk is a Queue, and who asks it.
type desk struct {
	*Queue
	t      *testing.T
	events *event.Subscription
}

func newDesk(t *testing.T) desk {
	stream := event.NewStream("a")
	events := stream.Subscribe(time.Time{})
	t.Cleanup(events.Close)
	return desk{New(Config{Timeout: time.Minute, Events: stream}), t, events}
}

// asks puts a decision and returns its id.
func (d desk) asks(ctx context.Context) (id string, answer chan tool.Answer) {
	d.t.Helper()
	answer = make(chan tool.Answer, 1)
	asked := agent.ApprovalRequest{Decision: tool.Decision{Agent: "x", Tool: "Write", Args: map[string]any{"file_path": "a"}}, Name: "worker", OnBehalfOf: []string{"planner"}}
	go func() { answer <- d.Ask(ctx, asked) }()
	e := d.event(event.TypeApproval)
	f := event.PartOf[event.Approval](e)
	if e.Agent != "x" || e.Name != "worker" || !slices.Equal(f.For, []string{"planner"}) || f.Tool != "Write" || f.Digest == "" {
		d.t.Fatalf("event = %+v", e)
	}
	return f.ID, answer
}

func (d desk) event(kind string) event.Event {
	d.t.Helper()
	e, err := d.events.Next(d.t.Context())
	if err != nil || e.Type != kind {
		d.t.Fatalf("event = %+v, %v; want %s", e, err, kind)
	}
	return e
}

func TestApprovalIsAnsweredOnceAndEndsWithItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		for _, want := range []tool.Answer{{Allow: true, By: "terminal"}, {By: "terminal"}, {Allow: true, Always: true, By: "x"}} {
			id, answer := d.asks(t.Context())
			waits := d.list("")
			if len(waits) != 1 || waits[0].GetId() != id || waits[0].GetName() != "worker" || string(waits[0].GetArgs()) != `{"file_path":"a"}` {
				t.Errorf("listed are %v", waits)
			}
			digest := waits[0].GetDigest()
			other := strings.Repeat("0", len(digest))
			if s, err := d.decide(id, other, want); s != nil || !errors.Is(err, errOtherContent) || len(d.list("")) != 1 {
				t.Errorf("an answer to another text was taken: %v", err)
			}
			s, err := d.decide(id, digest, want)
			want.By = describeAnswerer(nil, want)
			if s == nil || err != nil || <-answer != want {
				t.Errorf("the answer %+v did not arrive: %v", want, err)
			}
			if s, _ := d.decide(id, digest, tool.Answer{Allow: true}); s != nil {
				t.Error("an approval was answered twice")
			}
			if e := d.event("answered"); e.Part != (event.Answer{ID: id, Allow: want.Allow, By: want.By}) {
				t.Errorf("event = %+v", e)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		id, answer := d.asks(ctx)
		cancel()
		if got := <-answer; got.Allow || !strings.Contains(got.Why, "its task ended") {
			t.Errorf("the end of the task answered %+v", got)
		}
		if s, _ := d.decide(id, "", tool.Answer{Allow: true}); s != nil || len(d.list("")) != 0 {
			t.Error("an approval outlived its task")
		}
	})
}

// An answer that takes an offer keeps its rules, for the session or from now on, and says so; another one keeps nothing.
func TestAnswerTakesAnOffer(t *testing.T) {
	offers := []permission.Offer{
		{Kind: permission.OfferChanges, Text: "changes", Rules: []string{"Write(./*)", "Bash(box:work)"}, Covers: []string{"Write b"}},
		{Kind: permission.OfferWords, Text: "commands", Rules: []string{"Bash(go test:*)"}},
	}
	for name, c := range map[string]struct {
		answer *symbiov1.AnswerRequest
		want   standing.Entry // the zero Entry: it is refused
		by     string
	}{
		"for the session": {&symbiov1.AnswerRequest{Allow: true, Offer: 1}, standing.Entry{Rules: offers[0].Rules, Shown: "Write(./*), Bash(box:work)", Agent: "root", By: "me"}, "me, Write(./*) Bash(box:work) for the session"},
		"from now on":     {&symbiov1.AnswerRequest{Allow: true, Offer: 2, Lasting: true}, standing.Entry{Rules: offers[1].Rules, Shown: "Bash(go test:*)", By: "me"}, "me, Bash(go test:*), from now on"},
		"no such offer":   {&symbiov1.AnswerRequest{Allow: true, Offer: 3}, standing.Entry{}, ""},
		"a no":            {&symbiov1.AnswerRequest{Offer: 1}, standing.Entry{}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			var kept []standing.Entry
			full := errors.New("full")
			d := newDesk(t)
			d.cfg.Keep = func(e standing.Entry) error {
				if kept = append(kept, e); len(kept) == 1 {
					return full
				}
				return nil
			}
			answered := make(chan tool.Answer, 1)
			go func() {
				answered <- d.Ask(t.Context(), agent.ApprovalRequest{Decision: tool.Decision{Tool: "Bash", Args: map[string]any{}}, Offers: offers, Root: "root"})
			}()
			synctest.Wait()
			waits := d.list("")[0]
			if o := waits.GetOffers(); len(o) != 2 || o[0].GetKind() != "changes" || o[0].GetText() != "changes" || len(o[0].GetRules()) != 2 || o[0].GetCovers()[0] != "Write b" {
				t.Errorf("%s: shown are %v", name, o)
			}
			c.answer.Id, c.answer.By = waits.GetId(), "me"
			if c.by != "" { // what cannot be kept is not answered
				if _, err := d.Answer(t.Context(), c.answer); !errors.Is(err, full) || len(d.list("")) != 1 {
					t.Errorf("%s: %v", name, err)
				}
			}
			_, err := d.Answer(t.Context(), c.answer)
			if c.by == "" {
				if !errors.Is(err, errNoOffer) || len(kept) > 0 || len(d.list("")) != 1 {
					t.Errorf("%s: %v, kept %+v", name, err, kept)
				}
				_, err = d.Answer(t.Context(), &symbiov1.AnswerRequest{Id: waits.GetId(), By: "me"})
				c.by = "me"
			} else if len(kept) != 2 || !reflect.DeepEqual(kept[1], c.want) {
				t.Errorf("%s: kept %+v, want %+v", name, kept, c.want)
			}
			if a := <-answered; err != nil || a.By != c.by {
				t.Errorf("%s: answered by %q, %v, want %q", name, a.By, err, c.by)
			}
		})
	}
}

func TestBeginningOfAnIdAnswersItsApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		id, answer := d.asks(t.Context())
		for _, typed := range []string{id[:5], id[:7] + "?"} {
			if len(d.pendingOf(typed)) > 0 {
				t.Errorf("%q fits %q", typed, id)
			}
		}
		if a, err := d.Answer(t.Context(), &symbiov1.AnswerRequest{Id: id[:7], Allow: true}); err != nil || a.GetId() != id {
			t.Errorf("%q: %v, %v", id[:7], a, err)
		}
		if !(<-answer).Allow {
			t.Error("the answer did not arrive")
		}
	})
}

func TestOfTwoAnswersAtOnceOneCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		w, why := d.add(agent.ApprovalRequest{}) // nobody has taken the answer yet
		if w == nil {
			t.Fatal(why)
		}
		first, err := d.decide(w.shown.id, "", tool.Answer{Allow: true})
		second, again := d.decide(w.shown.id, "", tool.Answer{})
		if first == nil || second != nil || err != nil || again != nil || !(<-w.answer).Allow {
			t.Errorf("the first: %v, %v; the second: %v, %v", first, err, second, again)
		}
	})
}

func TestUnansweredApprovalIsDeniedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		begun := time.Now()
		_, answer := d.asks(t.Context())
		if got := <-answer; got.Allow || !strings.Contains(got.Why, "there was no answer within 1m0s") || time.Since(begun) != time.Minute {
			t.Errorf("after %v: %+v", time.Since(begun), got)
		}
	})
}

func TestTooManyThatWaitAreDeniedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		ctx, cancel := context.WithCancel(t.Context())
		for range maxPending {
			d.asks(ctx)
		}
		if got := d.Ask(ctx, agent.ApprovalRequest{}); got.Allow || !strings.Contains(got.Why, "Too many") {
			t.Errorf("one too many: %+v", got)
		}
		if n := len(d.list("")); n != maxPending {
			t.Errorf("%d wait", n)
		}
		cancel()
		synctest.Wait()
	})
}
