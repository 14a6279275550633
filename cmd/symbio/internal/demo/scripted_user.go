package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"symbio/agent/event"
	"symbio/agent/node/control"
	symbiov1 "symbio/proto/symbio/v1"
)

// remark is what the person of the tour says in the middle of the survey.
const remark = "Also say which part is the largest."

// approvalPollInterval is how often the person looks for questions. A question is answered at the second look, so that the events of
// node a have shown it by then.
const approvalPollInterval = 100 * time.Millisecond

// scriptedUser gives node a the task, follows it, and answers what is asked, as a user at a terminal would.
type scriptedUser struct {
	report         string // the one file that may be written
	observer       *observer
	client         symbiov1.ControlClient
	stream         symbiov1.Control_ConverseClient
	seen           map[string]bool // questions, by id
	remarkSent     bool            // the remark
	remarkAccepted bool            // the remark waits for the agent's next turn, or is done with
	result         event.Fields    // of the survey
}

// survey gives node a the task and waits for its end, and for that of all that worked on it.
func (s setup) survey(ctx context.Context, p *observer) (event.Fields, error) {
	conn, err := s.state.Node("a").Dial()
	if err != nil {
		return event.Fields{}, err
	}
	defer conn.Close()
	g, ctx := errgroup.WithContext(ctx)
	self := &scriptedUser{report: s.options.Report, observer: p, client: symbiov1.NewControlClient(conn), seen: map[string]bool{}}
	if self.stream, err = self.client.Converse(ctx); err != nil {
		return event.Fields{}, err
	}
	task := fmt.Sprintf("Survey the directory %s and write the report to %s", s.options.Dir, s.options.Report)
	events := make(chan event.Event)
	g.Go(func() error { return self.receive(ctx, events) })
	g.Go(func() error {
		open := &symbiov1.RunRequest{Task: task, Agent: "surveyor", Interactive: true}
		if err := self.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Open{Open: open}}); err != nil {
			return err
		}
		return self.follow(ctx, events)
	})
	if err := g.Wait(); err != nil {
		return event.Fields{}, err
	}
	switch r := self.result; r.Status {
	case "":
		return r, errors.New("node a ended the task without a result")
	case "done":
		return r, nil
	default:
		return r, fmt.Errorf("the survey %s: %s", r.Status, r.Error)
	}
}

// send sends a request to node a. When node a takes nothing more, receive returns the reason.
func (p *scriptedUser) send(r *symbiov1.ConverseRequest) error {
	if err := p.stream.Send(r); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// receive passes on the events of the conversation until its end.
func (p *scriptedUser) receive(ctx context.Context, to chan<- event.Event) error {
	defer close(to)
	for {
		e, err := control.Receive(p.stream.Recv)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case to <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow handles events and questions until the conversation is over.
func (p *scriptedUser) follow(ctx context.Context, events <-chan event.Event) error {
	look := time.NewTicker(approvalPollInterval)
	defer look.Stop()
	for {
		var err error
		select {
		case e, more := <-events:
			if !more {
				return nil
			}
			err = p.event(e)
		case <-look.C:
			err = p.pollApprovals(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

func (p *scriptedUser) event(e event.Event) error {
	f, err := e.Fields()
	if err != nil {
		return err
	}
	switch e.Type {
	case "transcript":
		p.remarkAccepted = p.remarkAccepted || f.PendingSteering > 0
	case "receipt": // whatever became of the remark, it waits no longer
		p.remarkAccepted = true
	case "result":
		p.result = f
		return p.stream.CloseSend()
	}
	return nil // node a's own output shows it
}

// pollApprovals answers the questions that wait. The first one is a good moment to say something more; it is answered when the
// remark is sure to be before the agent's next turn.
func (p *scriptedUser) pollApprovals(ctx context.Context) error {
	r, err := p.client.Approvals(ctx, &symbiov1.ApprovalsRequest{Here: true})
	if err != nil {
		return err
	}
	for _, q := range r.GetApprovals() {
		switch {
		case !p.seen[q.GetId()]:
			p.seen[q.GetId()] = true
		case !p.remarkSent:
			p.remarkSent = true
			p.observer.note("a", "YOU ADD: "+remark)
			err = p.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Steer{Steer: &symbiov1.SteerMessage{Text: remark}}})
		case !p.remarkAccepted:
			err = p.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Transcript{Transcript: &symbiov1.AskTranscript{}}})
		default:
			err = p.answer(ctx, q)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// answer allows the report to be written, and nothing else.
func (p *scriptedUser) answer(ctx context.Context, q *symbiov1.Approval) error {
	var args struct {
		File string `json:"file_path"`
	}
	if err := json.Unmarshal(q.GetArgs(), &args); err != nil {
		return err
	}
	allow := q.GetTool() == "Write" && args.File == p.report
	_, err := p.client.Answer(ctx, &symbiov1.AnswerRequest{Id: q.GetId(), Digest: q.GetDigest(), By: "the tour", Allow: allow})
	return err
}
