package conversation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/agent/tool"
	"symbio/security/permission"
)

// moment is something that a crash comes before or after: entries were added, all of them were
// committed, or a call ran.
type moment struct {
	entries int    // how many are added by then
	commit  bool   // all of them are durable
	ran     string // the call that began to run
}

// pastLog is a Journal that knows what each crash would have left.
type pastLog struct {
	mu      sync.Mutex
	entries []session.Entry
	moments []moment
}

func (p *pastLog) record(commit bool, entries []session.Entry) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range entries {
		text, err := json.Marshal(e) // as it would be on the disk: what changes later is not in it
		if err != nil {
			return err
		}
		p.entries = append(p.entries, session.Entry{Kind: e.Kind})
		if err := json.Unmarshal(text, &p.entries[len(p.entries)-1]); err != nil {
			return err
		}
		p.moments = append(p.moments, moment{entries: len(p.entries)})
	}
	if commit {
		p.moments = append(p.moments, moment{entries: len(p.entries), commit: true})
	}
	return nil
}

func (p *pastLog) Add(entries ...session.Entry) error    { return p.record(false, entries) }
func (p *pastLog) Commit(entries ...session.Entry) error { return p.record(true, entries) }

func (p *pastLog) ran(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moments = append(p.moments, moment{entries: len(p.entries), ran: id})
}

// crash returns what is left after the first at moments: the entries that were committed, lucky of the
// others, and the calls that ran.
func (p *pastLog) crash(at, lucky int) (left []session.Entry, ran map[string]int) {
	ran = map[string]int{}
	durable, added := 0, 0
	for _, m := range p.moments[:at] {
		added = m.entries
		if m.commit {
			durable = m.entries
		}
		if m.ran != "" {
			ran[m.ran]++
		}
	}
	return slices.Clone(p.entries[:min(added, durable+lucky)]), ran
}

// restarts is a conversation that lives several lives, and what must hold over all of them.
type restarts struct {
	log   *pastLog
	c     *conversation.Conversation
	turns []string
	fail  func(format string, args ...any)
	calls int            // made by the model, in all lives
	ran   map[string]int // the calls of earlier lives that ran
	asked int            // requests of this life
	// restarted is whether the next request would have the note about an interrupted exchange after a
	// restart; nil = it is not checked.
	restarted *bool
}

const resumeTurns = 5

var resumedTurns = []string{"answer", "answer", "slow", "think", "act", "act", "two acts", "read and act", "alone", "talk", "talk much", "fail", "fail within", "too long", "cut", "unknown"}

func (x *restarts) turn(ctx context.Context, what string) (llm.Response, error) {
	use := func(names ...string) (llm.Response, error) {
		var m llm.Message
		for _, name := range names {
			x.calls++
			id := fmt.Sprintf("c%d", x.calls)
			m.Calls = append(m.Calls, llm.ToolCall{ID: id, Name: name, Args: json.RawMessage(fmt.Sprintf(`{"id":%q}`, id))})
		}
		return llm.Response{Message: m}, nil
	}
	switch what {
	case "slow":
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return llm.Response{Message: llm.Message{Text: "I be"}}, ctx.Err()
		}
	case "think":
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
			return llm.Response{}, ctx.Err()
		}
	case "act":
		return use("act")
	case "two acts":
		return use("act", "act")
	case "read and act":
		return use("read", "act", "read")
	case "alone":
		return use("act", "alone", "read")
	case "talk":
		return use("talk")
	case "talk much":
		return use("talk", "talk", "act")
	case "unknown":
		return use("nosuch", "act")
	case "fail":
		return llm.Response{}, errModel
	case "fail within":
		return llm.Response{Message: llm.Message{Text: "well", Calls: []llm.ToolCall{{ID: "lost", Name: "act", Args: json.RawMessage(`{"id":"lost"}`)}}}}, errModel
	case "too long":
		return llm.Response{}, &llm.Error{Err: llm.ErrContextLength}
	case "cut":
		return llm.Response{Message: llm.Message{Text: "and th"}}, llm.ErrCut
	}
	return llm.Response{Message: llm.Message{Text: "fine"}}, nil
}

func (x *restarts) model() llm.Model {
	return llm.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
		x.check("a request", r.Messages)
		if n := len(r.Messages); n == 0 || r.Messages[n-1].Role == llm.Assistant {
			x.fail("a request ends with %v", texts(r.Messages))
		}
		x.log.mu.Lock()
		if n := len(x.log.moments); !x.log.moments[n-1].commit || x.log.entries[len(x.log.entries)-1].Kind != session.Request {
			x.fail("a request was not recorded")
		}
		x.log.mu.Unlock()
		x.checkNote(r)
		x.asked++
		what := "answer"
		if len(x.turns) > 0 && !isSummary(r) {
			what, x.turns = x.turns[0], x.turns[1:]
		}
		return x.turn(ctx, what)
	})
}

// hasNote reports whether the message of a request has the note about an interrupted exchange.
func hasNote(r llm.Request) bool { return strings.Contains(lastWords(r), "exchange was interrupted") }

// checkNote compares the first request of an exchange with that after a restart.
func (x *restarts) checkNote(r llm.Request) {
	if x.restarted == nil || isSummary(r) {
		return
	}
	if got := hasNote(r); got != *x.restarted && !strings.HasPrefix(r.Messages[0].Text, "[This conversation became") {
		x.fail("that a request has the note is %v, after a restart it is %v\n%s", got, *x.restarted, strings.Join(texts(r.Messages), "\n"))
	}
	x.restarted = nil
}

// check looks whether servers accept a history.
func (x *restarts) check(what string, messages []llm.Message) {
	if err := conversation.Sound(messages); err != nil {
		x.fail("%s: %v\n%s", what, err, strings.Join(texts(messages), "\n"))
	}
	for i := 1; i < len(messages); i++ {
		if messages[i].Role == messages[i-1].Role {
			x.fail("%s has two messages of one role:\n%s", what, strings.Join(texts(messages), "\n"))
		}
	}
}

func (x *restarts) tools() *tool.Set {
	type args struct {
		ID string `json:"id"`
	}
	run := func(d time.Duration, size int) func(context.Context, args) tool.Result {
		return func(ctx context.Context, a args) tool.Result {
			x.log.ran(a.ID)
			select {
			case <-time.After(d):
				return tool.Result{Text: "did " + a.ID + strings.Repeat("x", size)}
			case <-ctx.Done():
				return tool.Result{Text: "did half", IsError: true}
			}
		}
	}
	return tool.NewSet(tool.SetConfig{
		Guard: permission.Chain{{Policy: permission.Policy{Default: permission.Allow}}},
		OnStart: func(calls []llm.ToolCall) error {
			var entries []session.Entry
			for _, c := range calls {
				entries = append(entries, session.Entry{Kind: session.Call, Call: &llm.ToolCall{ID: c.ID, Name: c.Name}})
			}
			return x.log.Commit(entries...)
		},
		OnEnd: func(r llm.ToolResult, others bool) {
			_ = x.log.record(others, []session.Entry{{Kind: session.Result, Result: &r}})
		},
	},
		tool.New(tool.Spec{Name: "act"}, run(2*time.Second, 0)), tool.New(tool.Spec{Name: "alone", Alone: true}, run(time.Second, 0)),
		tool.New(tool.Spec{Name: "read", ReadOnly: true}, run(time.Second, 0)), tool.New(tool.Spec{Name: "talk"}, run(0, 3000)))
}

// open begins a life with what is left of the one before.
func (x *restarts) open(left []session.Entry) *conversation.Conversation {
	x.log = &pastLog{}
	for _, e := range left {
		if err := x.log.record(true, []session.Entry{e}); err != nil {
			x.fail("%v", err)
		}
	}
	return conversation.New(conversation.Config{Model: x.model(), Tools: x.tools(), Window: func() int { return 4000 }, MaxTurns: resumeTurns, Journal: x.log, Past: x.log.entries[:len(left):len(left)]})
}

// life is what happens in one life: a message or a Resume, then what comes meanwhile.
type life struct {
	turns  []string
	resume bool
	during [][]deed // of each exchange
	crash  int      // a share of the moments, in thousandths
	lucky  int      // entries that were written without a commit
}

// live does what a life says, and checks after each exchange that a restart has the same conversation.
func (x *restarts) live(t *testing.T, l life) {
	x.turns, x.asked, x.restarted = l.turns, 0, nil
	for i, during := range l.during {
		var group sync.WaitGroup
		group.Go(func() { x.exchange(t, l.resume && i == 0, fmt.Sprintf("<%d>", i)) })
		for _, d := range during {
			time.Sleep(d.at)
			synctest.Wait()
			switch d.what {
			case "interject":
				group.Go(func() { _, _ = x.c.Interject(t.Context(), conversation.Steering{Text: "meanwhile", Keep: d.keep}) })
			case "steer":
				_ = x.c.Steer("for later")
			case "interrupt":
				_ = x.c.Interrupt()
			case "replace":
				h := []llm.Message{{Role: llm.User, Text: "other"}, {Role: llm.Assistant, Text: "yes"}}
				if err := x.c.Replace(h[:2*(d.at.Milliseconds()%2)]); err != nil {
					x.fail("replace: %v", err)
				}
			}
		}
		group.Wait()
		noted := false
		again := conversation.New(conversation.Config{Model: llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
			noted = noted || !isSummary(r) && hasNote(r)
			return llm.Response{Message: llm.Message{Text: "fine"}}, nil
		}), Past: x.log.entries})
		if got, want := again.Transcript(), x.c.Transcript(); again.CanResume() || !reflect.DeepEqual(texts(got), texts(want)) {
			x.fail("a restart has (open: %v)\n%s\nbut it was\n%s", again.CanResume(), strings.Join(texts(got), "\n"), strings.Join(texts(want), "\n"))
		}
		if _, err := again.Send(t.Context(), "and now?"); err != nil {
			x.fail("after a restart: %v", err)
		}
		x.restarted = &noted
	}
}

// exchange sends a message, or resumes, and checks the error.
func (x *restarts) exchange(t *testing.T, resume bool, text string) {
	var err error
	could := x.c.CanResume()
	if resume {
		if _, err = x.c.Resume(t.Context(), llm.Message{Text: "a note"}); !could && !errors.Is(err, conversation.ErrIdle) {
			x.fail("there was nothing to resume: %v", err)
		}
		if turns := countAnswers(x.log.entries); could && turns > resumeTurns {
			x.fail("%d turns before and after the restart are above the limit", turns)
		}
		// A turn may need a request, 3 more for an answer that broke off, and as many after a summary, for which it asks twice.
		if x.asked > 10*resumeTurns {
			x.fail("%d requests after the restart are above the limit", x.asked)
		}
	} else {
		_, err = x.c.Send(t.Context(), text)
	}
	for _, may := range []error{nil, errModel, llm.ErrCut, llm.ErrContextLength, conversation.ErrInterrupted, conversation.ErrTurns, conversation.ErrIdle} {
		if errors.Is(err, may) {
			return
		}
	}
	x.fail("the exchange: %v", err)
}

func countAnswers(entries []session.Entry) (n int) {
	for _, e := range session.Latest(entries) {
		if e.Kind == session.Answer {
			n++
		}
	}
	return n
}

// lives runs one life after the other, each ended by a crash, and then a last one to its end.
func (x *restarts) lives(t *testing.T, all []life) {
	var left []session.Entry
	x.ran = map[string]int{}
	for _, l := range append(all, life{resume: true, during: [][]deed{nil, nil}}) {
		x.c = x.open(left)
		x.check("what is left", x.c.Transcript())
		begin := len(x.log.moments)
		x.live(t, l)
		var ran map[string]int
		left, ran = x.log.crash(begin+(len(x.log.moments)-begin)*l.crash/1000, l.lucky)
		if l.crash == 0 {
			left, ran = x.log.crash(len(x.log.moments), 0)
		}
		x.count(ran)
	}
	x.check("the end", x.c.Transcript())
}

// count adds the calls that ran in a life. One that changes something runs once in all of them.
func (x *restarts) count(ran map[string]int) {
	names := map[string]string{}
	for _, e := range x.log.entries {
		if e.Kind == session.Answer {
			for _, c := range e.Message.Calls {
				names[c.ID] = c.Name
			}
		}
	}
	for id, n := range ran {
		if x.ran[id] += n; x.ran[id] > 1 && names[id] != "read" {
			x.fail("the call %s of %s ran %d times", id, names[id], x.ran[id])
		}
	}
}

func TestResumedConversationIsSoundAndRunsNoCallTwice(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		during := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) deed {
			return deed{what: rapid.SampledFrom([]string{"interject", "interject", "steer", "interrupt", "replace"}).Draw(r, "what"),
				at: time.Duration(rapid.IntRange(1, 2500).Draw(r, "at")) * time.Millisecond, keep: rapid.Bool().Draw(r, "keep")}
		}), 0, 3)
		all := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) life {
			return life{
				turns: rapid.SliceOfN(rapid.SampledFrom(resumedTurns), 0, 12).Draw(r, "turns"), resume: rapid.Bool().Draw(r, "resume"),
				during: rapid.SliceOfN(during, 1, 3).Draw(r, "during"), crash: rapid.IntRange(1, 1000).Draw(r, "crash"), lucky: rapid.IntRange(0, 3).Draw(r, "lucky"),
			}
		}), 1, 3).Draw(r, "lives")
		x := &restarts{}
		var mu sync.Mutex
		var failed []string
		x.fail = func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, fmt.Sprintf(format, args...))
		}
		synctest.Test(t, func(t *testing.T) { x.lives(t, all) })
		if len(failed) > 0 {
			r.Fatal(strings.Join(failed, "\n"))
		}
	})
}
