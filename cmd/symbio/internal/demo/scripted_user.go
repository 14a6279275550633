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

// remark is what the scripted user adds while the agent works.
const remark = "Also say which part is the largest."

// approvalPollInterval is how often the scripted user looks for questions. Each question is
// answered at the second look, so that the output of node a has shown it before the answer.
const approvalPollInterval = 100 * time.Millisecond

// scriptedUser gives node a the task, follows the conversation, and answers what is asked, as a
// person at a terminal would. It uses the same control API as `symbio run`.
type scriptedUser struct {
	// report is the one file that may be written.
	report   string
	observer *observer
	client   symbiov1.ControlClient
	stream   symbiov1.Control_ConverseClient
	// seen has the ids of questions of earlier looks.
	seen map[string]bool
	// remarkSent is true once the remark has been sent.
	remarkSent bool
	// remarkAccepted is true once the remark waits for the agent's next turn, or has been dealt
	// with. Only then the question is answered, so that the remark is in the next turn for sure.
	remarkAccepted bool
	// result is the event that ended the task.
	result event.Fields
}

// survey gives node a the task, waits for its end, and returns the result. The task may also end as
// "failed" or "interrupted", which is an error.
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

// send sends a request to node a. io.EOF means that the node has ended the stream; receive returns
// the reason.
func (p *scriptedUser) send(r *symbiov1.ConverseRequest) error {
	if err := p.stream.Send(r); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// receive passes the events of the conversation on until its end.
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
	ticker := time.NewTicker(approvalPollInterval)
	defer ticker.Stop()
	for {
		var err error
		select {
		case e, more := <-events:
			if !more {
				return nil
			}
			err = p.event(e)
		case <-ticker.C:
			err = p.pollApprovals(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// event handles one event. Most are ignored here, because node a's own output shows them.
func (p *scriptedUser) event(e event.Event) error {
	f, err := e.Fields()
	if err != nil {
		return err
	}
	switch e.Type {
	case "transcript":
		p.remarkAccepted = p.remarkAccepted || f.PendingSteering > 0
	// A receipt means that the remark does not wait any more, whatever its outcome.
	case "receipt":
		p.remarkAccepted = true
	case "result":
		p.result = f
		return p.stream.CloseSend()
	}
	// All other events are shown by node a's own output.
	return nil
}

// pollApprovals handles the questions that wait: a new one is only noted; at the second look the
// remark is sent, because the agent waits just then; when the remark is accepted, the question is
// answered.
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

// answer allows calls that write the report, and those that have it rendered as soon as node b can, and
// denies every other one.
func (p *scriptedUser) answer(ctx context.Context, q *symbiov1.Approval) error {
	var args struct {
		File       string `json:"file_path"`
		Capability string `json:"capability"`
	}
	if err := json.Unmarshal(q.GetArgs(), &args); err != nil {
		return err
	}
	if args.Capability == renderCapability && !p.observer.isBack() {
		return nil // it is asked again
	}
	allow := q.GetTool() == "Write" && args.File == p.report || args.Capability == renderCapability
	_, err := p.client.Answer(ctx, &symbiov1.AnswerRequest{Id: q.GetId(), Digest: q.GetDigest(), By: "the tour", Allow: allow})
	return err
}
