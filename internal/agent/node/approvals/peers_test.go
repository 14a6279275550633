package approvals

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent"
	"symbio/agent/event"
	"symbio/agent/tool"
	"symbio/community"
	"symbio/internal/security/permission/authorize"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
	"symbio/transport/grpcpeer/grpcpeertest"
)

// place is a node, as far as decisions that wait need one.
type place struct {
	*Queue
	id        community.NodeID
	community *community.Community
}

// pair is two nodes on a LAN without a network: decisions wait on there, and here is where a person sits.
type pair struct {
	t           *testing.T
	network     *grpcpeertest.LAN
	here, there place
	stop        [2]context.CancelFunc
}

func newPair(t *testing.T, list ...authorize.Rule) *pair {
	p := &pair{t: t, network: grpcpeertest.NewLAN(t, grpcpeertest.Config{})}
	p.here, p.stop[0] = p.node("here")
	p.there, p.stop[1] = p.node("there", list...)
	time.Sleep(3 * time.Second) // they have found each other
	return p
}

func (p *pair) node(name string, list ...authorize.Rule) (place, context.CancelFunc) {
	p.t.Helper()
	rules, err := authorize.New(list)
	if err != nil {
		p.t.Fatal(err)
	}
	n := place{id: grpcpeertest.ID(name)}
	n.community = community.New(community.Config{Node: n.id, Name: name, Network: p.network.Join(name).Network, Authorize: func(from community.Peer, c community.Call) error {
		if v := rules.Judge(authorize.Principal{Node: string(from.ID)}, authorize.KindInvoke, c.Capability); v.Action != permission.Allow {
			return errors.New(v.Why)
		}
		return nil
	}})
	n.Queue = New(Config{Node: n.id, Name: name, Community: n.community, Timeout: time.Minute, MaxMessage: 1 << 20, Events: event.NewStream(name)})
	if err := n.Offer(); err != nil {
		p.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.community.Run(ctx) }()
	end := func() { stop(); <-done }
	p.t.Cleanup(stop)
	return n, end
}

func (p *pair) end() {
	for _, stop := range p.stop {
		stop()
	}
}

// asks has a decision wait there.
func (p *pair) asks(ctx context.Context, args map[string]any) chan tool.Answer {
	answer := make(chan tool.Answer, 1)
	asked := agent.ApprovalRequest{Decision: tool.Decision{Agent: "x", Tool: "Write", Args: args}, Name: "worker", OnBehalfOf: []string{"planner", "node-b/agent"}}
	go func() { answer <- p.there.Ask(ctx, asked) }()
	synctest.Wait()
	return answer
}

// seen is what a person here sees.
func (p *pair) seen(id string) []*symbiov1.Approval {
	p.t.Helper()
	reply := p.here.List(p.t.Context(), id, false)
	if len(reply.GetProblems()) > 0 {
		p.t.Fatal(reply.GetProblems())
	}
	return reply.GetApprovals()
}

func (p *pair) answers(r *symbiov1.AnswerRequest) error {
	_, err := p.here.Answer(p.t.Context(), r)
	return err
}

// raw calls a capability there as somebody might who does not use this program.
func (p *pair) raw(capability, data string, requester ...string) (community.Reply, error) {
	return p.here.community.Invoke(p.t.Context(), community.MemberID(p.there.id), capability, community.Signal{Data: []byte(data), Requester: requester})
}

var (
	mayAnswer = authorize.Rule{From: string(grpcpeertest.ID("here")), Invoke: []string{"approvals.*"}}
	mayAll    = authorize.Rule{From: "*", Invoke: []string{"*", "a*"}}
	args      = map[string]any{"file_path": "a<b>\u202e", "content": "\x00\n"}
)

func TestDecisionIsSeenAndAnsweredFromAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mayAnswer)
		defer p.end()
		for i, r := range []*symbiov1.AnswerRequest{{Allow: true}, {}, {Allow: true, Always: true}} {
			answer := p.asks(t.Context(), args)
			waits := p.seen("")
			if len(waits) != 1 {
				t.Fatalf("%d wait", len(waits))
			}
			a := waits[0]
			if a.GetNode() != string(p.there.id) || a.GetNodeName() != "there" || a.GetName() != "worker" || strings.Join(a.GetFor(), " ") != "planner node-b/agent" {
				t.Errorf("seen is %v", a)
			}
			var got map[string]any
			if err := json.Unmarshal(a.GetArgs(), &got); err != nil || got["file_path"] != args["file_path"] || got["content"] != args["content"] {
				t.Errorf("the arguments are seen as %q", a.GetArgs())
			}
			if len(p.seen(a.GetId())) != 1 || len(p.seen("1-00000000")) != 0 {
				t.Error("asking for one finds another")
			}
			r.Id = a.GetId()[:len(a.GetId())-2*i] // the beginning of an id is enough
			if err := p.answers(r); err != nil {
				t.Fatal(err)
			}
			want := tool.Answer{Allow: r.Allow, Always: r.Always, By: "symbio approvals on node here (" + string(p.here.id) + ")"}
			want.By = describeAnswerer(nil, want)
			if got := <-answer; got != want {
				t.Errorf("answer %d arrived as %+v, want %+v", i, got, want)
			}
			if err := p.answers(r); err == nil || !strings.Contains(err.Error(), "no approval") {
				t.Errorf("answered twice: %v", err)
			}
		}
	})
}

func TestAnswerIsForExactlyWhatWasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mayAnswer)
		defer p.end()
		answer := p.asks(t.Context(), args)
		a := p.seen("")[0]
		other := strings.Repeat("0", 64)
		if err := p.answers(&symbiov1.AnswerRequest{Id: a.GetId(), Digest: other, Allow: true}); err == nil || !strings.Contains(err.Error(), errOtherContent.Error()) {
			t.Errorf("another text: %v", err)
		}
		for name, data := range map[string]string{
			"another text": `{"id":"` + a.GetId() + `","digest":"` + other + `","allow":true}`,
			"no digest":    `{"id":"` + a.GetId() + `","allow":true}`,
			"empty digest": `{"id":"` + a.GetId() + `","digest":"","allow":true}`,
			"a key twice":  `{"id":"` + a.GetId() + `","digest":"` + a.GetDigest() + `","allow":false,"allow":true}`,
			"no answer":    `{"id":"` + a.GetId() + `","digest":"` + a.GetDigest() + `"}`,
		} {
			if _, err := p.raw(approvalsAnswer, data); !errors.Is(err, community.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", name, err)
			}
		}
		for _, r := range []*symbiov1.AnswerRequest{{Lasting: true}, {Offer: 1}} {
			r.Id, r.Allow = a.GetId(), true
			if err := p.answers(r); err == nil || !strings.Contains(err.Error(), "on that node") {
				t.Errorf("%v from elsewhere: %v", r, err)
			}
		}
		if len(answer) != 0 || len(p.seen("")) != 1 {
			t.Error("it was answered all the same")
		}
		if err := p.answers(&symbiov1.AnswerRequest{Id: a.GetId(), Digest: a.GetDigest(), Allow: true}); err != nil || !(<-answer).Allow {
			t.Errorf("the right text: %v", err)
		}
	})
}

func TestOnlyPeopleAtNodesThatMayAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mayAll)
		defer p.end()
		p.asks(t.Context(), args)
		reply := p.here.List(t.Context(), "", false)
		if len(reply.GetApprovals()) != 0 || len(reply.GetProblems()) != 1 {
			t.Fatalf("a node that may call everything else sees %v", reply)
		}
		if why := reply.GetProblems()[0].GetWhy(); !strings.Contains(why, `authorize: [{from: "`+string(p.here.id)+`", invoke: ["approvals.*"]}]`) {
			t.Errorf("it is told %q", why)
		}
		id := p.there.list("")[0].GetId()
		if err := p.answers(&symbiov1.AnswerRequest{Id: id, Allow: true}); err == nil || !strings.Contains(err.Error(), "does not let this node") {
			t.Errorf("it answers: %v", err)
		}
		digest := p.there.list("")[0].GetDigest()
		if _, err := p.raw(approvalsAnswer, `{"id":"`+id+`","digest":"`+digest+`","allow":true}`); !errors.Is(err, community.ErrDenied) {
			t.Errorf("it answers what it could not see: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mayAnswer)
		defer p.end()
		p.asks(t.Context(), args)
		a := p.seen("")[0]
		data := `{"id":"` + a.GetId() + `","digest":"` + a.GetDigest() + `","allow":true}`
		for _, requester := range []string{string(p.here.id) + "/agent", string(p.there.id) + "/agent", string(p.there.id), "somebody"} {
			for _, capability := range []string{approvalsList, approvalsAnswer} {
				if _, err := p.raw(capability, data, requester); !errors.Is(err, community.ErrDenied) || !strings.Contains(err.Error(), "not by agents") {
					t.Errorf("%s for %s: %v, want ErrDenied", capability, requester, err)
				}
			}
		}
		if len(p.seen("")) != 1 {
			t.Error("it was answered all the same")
		}
	})
}

func TestAnswerThatGetsLostIsANo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mayAnswer)
		defer p.end()
		answer := p.asks(t.Context(), args)
		a := p.seen("")[0]
		p.network.Partition(p.there.id)
		err := p.answers(&symbiov1.AnswerRequest{Id: a.GetId(), Allow: true})
		if err == nil {
			t.Error("an answer over a cut line is said to have arrived")
		}
		if got := <-answer; got.Allow || !strings.Contains(got.Why, "there was no answer") {
			t.Errorf("it ended as %+v", got)
		}
		p.network.Heal()
	})
}

func TestDecisionEndsWithItsTaskForPeopleElsewhereToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mayAnswer)
		defer p.end()
		ctx, cancel := context.WithCancel(t.Context())
		answer := p.asks(ctx, args)
		a := p.seen("")[0]
		cancel()
		if got := <-answer; got.Allow {
			t.Error("the end of the task was a yes")
		}
		if err := p.answers(&symbiov1.AnswerRequest{Id: a.GetId(), Allow: true}); err == nil || !strings.Contains(err.Error(), "no approval") {
			t.Errorf("answered after the end: %v", err)
		}
	})
}

func TestUnshownApprovalIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mayAnswer)
		defer p.end()
		p.asks(t.Context(), map[string]any{"content": strings.Repeat("x", 500<<10)})
		p.asks(t.Context(), map[string]any{"content": strings.Repeat("y", 500<<10)})
		p.asks(t.Context(), map[string]any{"content": strings.Repeat("z", 2<<20)})
		waits := p.seen("")
		whole := 0
		for _, a := range waits {
			alone := p.seen(a.GetId())
			if len(alone) != 1 {
				t.Fatalf("%s alone: %d", a.GetId(), len(alone))
			}
			if len(a.GetShown()) > 0 {
				whole++
			}
			size := len(alone[0].GetShown())
			err := p.answers(&symbiov1.AnswerRequest{Id: a.GetId(), Allow: true})
			if (size > 0) != (err == nil) || err != nil && !strings.Contains(err.Error(), "too long") {
				t.Errorf("%s, shown with %d bytes: answered with %v", a.GetId(), size, err)
			}
		}
		if len(waits) != 3 || whole != 1 || len(p.there.list("")) != 1 {
			t.Errorf("%d wait, %d of them shown together, %d left", len(waits), whole, len(p.there.list("")))
		}
	})
}

func TestNodeThatShowsSomethingElseIsNotBelieved(t *testing.T) {
	s, err := newRequest(content{Node: "n", Number: 3, Tool: "Bash", Args: json.RawMessage(`{"command":"ls"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parseRequest("n", s.id, s.text); err != nil || !bytes.Equal(got.text, s.text) {
		t.Errorf("the right one: %v", err)
	}
	changed := strings.Replace(string(s.text), "ls", "id", 1)
	for name, x := range map[string][3]string{
		"another text":       {"n", s.id, changed},
		"another id":         {"n", "4" + s.id[1:], string(s.text)},
		"another node":       {"m", s.id, string(s.text)},
		"a blank more":       {"n", s.id, string(s.text) + " "},
		"no approval at all": {"n", s.id, "[]"},
	} {
		if _, err := parseRequest(x[0], x[1], []byte(x[2])); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	again, err := newRequest(content{Nonce: "other", Node: "n", Number: 3, Tool: "Bash", Args: json.RawMessage(`{"command":"ls"}`)})
	if err != nil || again.id == s.id {
		t.Error("the same call has the same id after a restart")
	}
}

// FuzzReadSheet: whatever a node sends, nothing is taken that its id does not name.
func FuzzReadSheet(f *testing.F) {
	s, err := newRequest(content{Node: "n", Number: 3, Tool: "Bash", Args: json.RawMessage(`{}`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.id, s.text)
	f.Add("1-", []byte("{}"))
	f.Fuzz(func(t *testing.T, id string, text []byte) {
		got, err := parseRequest("n", id, text)
		if err == nil && (got.id != id || digestOf(text)[:8] != id[len(id)-8:]) {
			t.Errorf("%q was taken as %q", text, id)
		}
	})
}

func TestReasonOfANoTravelsToTheAsker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mayAnswer)
		defer p.end()
		for _, tt := range []struct{ reason, want string }{
			{"use b instead", "use b instead"},
			{" two\nlines\u202e\x1b[2J ", "two lines[2J"},
			{strings.Repeat("x", 5000), strings.Repeat("x", maxReason) + "…"},
		} {
			for _, remote := range []bool{false, true} {
				answer := p.asks(t.Context(), args)
				at := p.there
				if remote {
					at = p.here
				}
				r := &symbiov1.AnswerRequest{Id: p.seen("")[0].GetId(), Reason: tt.reason}
				if _, err := at.Answer(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				if got := <-answer; got.Allow || !strings.HasPrefix(got.Reason, tt.want) || len(got.Reason) > maxReason+6 {
					t.Errorf("%.20q, remote %v: arrived as %+v", tt.reason, remote, got)
				}
			}
		}
		answer := p.asks(t.Context(), args)
		a := p.seen("")[0]
		if err := p.answers(&symbiov1.AnswerRequest{Id: a.GetId(), Allow: true, Reason: "because"}); err == nil || !strings.Contains(err.Error(), "reason of a no") {
			t.Errorf("a yes with a reason: %v", err)
		}
		// One that does not use this program may send both.
		if _, err := p.raw(approvalsAnswer, `{"id":"`+a.GetId()+`","digest":"`+a.GetDigest()+`","allow":true,"reason":"because"}`); err == nil {
			t.Error("a yes with a reason was accepted")
		}
		if err := p.answers(&symbiov1.AnswerRequest{Id: a.GetId(), Allow: true}); err != nil {
			t.Fatal(err)
		}
		if got := <-answer; !got.Allow || got.Reason != "" {
			t.Errorf("arrived as %+v", got)
		}
		// A question of a server is answered with a text, which no event has.
		asked := make(chan tool.Answer, 1)
		go func() {
			asked <- p.there.Ask(t.Context(), agent.ApprovalRequest{Decision: tool.Decision{Tool: tool.QuestionOf + "s", Args: args}})
		}()
		synctest.Wait()
		if err := p.answers(&symbiov1.AnswerRequest{Id: p.seen("")[0].GetId(), Allow: true, Reason: "blue"}); err != nil {
			t.Fatal(err)
		}
		if got := <-asked; !got.Allow || got.Reason != "blue" {
			t.Errorf("arrived as %+v", got)
		}
	})
}

func TestDiffOfAnEditIsSeenAsItIsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mayAnswer)
		defer p.end()
		diff := "-a\n+b\n"
		ctx, cancel := context.WithCancel(t.Context())
		go p.there.Ask(ctx, agent.ApprovalRequest{Decision: tool.Decision{Agent: "x", Tool: "Edit", Args: args, Diff: func() string { return diff }},
			SoFar: func() string { return "It works on a task." }})
		synctest.Wait()
		for _, at := range []place{p.there, p.here} {
			diff += "+c\n"
			got := at.List(t.Context(), "", false).GetApprovals()
			if len(got) != 1 || got[0].GetDiff() != diff || strings.Contains(string(got[0].GetShown()), "+c") || got[0].GetSoFar() != "It works on a task." {
				t.Errorf("listed is %v, want the difference %q and what is done so far, outside of what is shown", got, diff)
			}
		}
		diff = strings.Repeat("x", 2<<20) // what a node would not send
		if got := p.seen("")[0].GetDiff(); got != "" {
			t.Errorf("a difference that fits into no message has %d bytes", len(got))
		}
		cancel()
		synctest.Wait()
	})
}
