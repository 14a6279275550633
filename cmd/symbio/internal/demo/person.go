package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	symbiov1 "symbio/proto/symbio/v1"
)

// remark is what the person of the tour says in the middle of the survey.
const remark = "Also say which part is the largest."

// person gives node a the task, follows it, and answers what it is asked, as somebody at a terminal would.
type person struct {
	report string // the one file that may be written
	play   *play
	client symbiov1.ControlClient
	stream symbiov1.Control_ConverseClient
	known  map[string]bool // questions, by id
	said   bool            // the remark
	held   *question       // it is answered when the remark is sure to be before the agent's next turn
	result outcome
}

// question is an approval that waits.
type question struct {
	ID, Digest, Tool string
	Args             struct {
		File string `json:"file_path"`
	}
}

// outcome is what came of the survey.
type outcome struct {
	Text, Status, Error string
	Spent               Spent
}

// survey gives node a the task and waits for its end, and for that of all that worked on it.
func (s stage) survey(ctx context.Context, p *play) (outcome, error) {
	conn, err := s.state.Dial("a")
	if err != nil {
		return outcome{}, err
	}
	defer conn.Close()
	g, ctx := errgroup.WithContext(ctx)
	self := &person{report: s.options.Report, play: p, client: symbiov1.NewControlClient(conn), known: map[string]bool{}}
	if self.stream, err = self.client.Converse(ctx); err != nil {
		return outcome{}, err
	}
	task := fmt.Sprintf("Survey the directory %s and write the report to %s", s.options.Dir, s.options.Report)
	events := make(chan *symbiov1.Event)
	g.Go(func() error { return self.hear(ctx, events) })
	g.Go(func() error {
		open := &symbiov1.RunRequest{Task: task, Agent: "surveyor", Interactive: true}
		if err := self.say(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Open{Open: open}}); err != nil {
			return err
		}
		return self.follow(ctx, events)
	})
	if err := g.Wait(); err != nil {
		return outcome{}, err
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

// say says something to node a. Why it takes nothing more, hear tells.
func (p *person) say(r *symbiov1.ConverseRequest) error {
	if err := p.stream.Send(r); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// hear passes on what node a says until it has said all.
func (p *person) hear(ctx context.Context, to chan<- *symbiov1.Event) error {
	defer close(to)
	for {
		e, err := p.stream.Recv()
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

// missed is how often it is looked for questions of which nothing was shown: when very much happens, events are left out.
const missed = 2 * time.Second

// follow takes what happens until the conversation is over. What is asked comes from what node a shows, so that a question
// is seen before its answer.
func (p *person) follow(ctx context.Context, events <-chan *symbiov1.Event) error {
	look := time.NewTicker(missed)
	defer look.Stop()
	for {
		var err error
		select {
		case e, more := <-events:
			if !more {
				return nil
			}
			err = p.event(ctx, e)
		case q := <-p.play.questions:
			err = p.asked(ctx, q)
		case <-look.C:
			err = p.unseen(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

func (p *person) event(ctx context.Context, e *symbiov1.Event) error {
	switch e.GetType() {
	case "transcript":
		var state struct {
			Pending int `json:"pending_steering"`
		}
		if err := json.Unmarshal(e.GetData(), &state); err != nil {
			return err
		}
		if p.held != nil && state.Pending == 0 {
			return p.look() // the remark is on its way
		}
		return p.release(ctx)
	case "receipt": // whatever became of it, it waits no longer
		return p.release(ctx)
	case "result":
		if err := json.Unmarshal(e.GetData(), &p.result); err != nil {
			return err
		}
		return p.stream.CloseSend()
	}
	return nil // node a's own output shows it
}

// asked answers a question. The first one is a good moment to say something more.
func (p *person) asked(ctx context.Context, q question) error {
	if p.known[q.ID] {
		return nil
	}
	p.known[q.ID] = true
	if p.said {
		return p.answer(ctx, q)
	}
	p.said, p.held = true, &q
	p.play.note("a", "YOU ADD: "+remark)
	err := p.say(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Steer{Steer: &symbiov1.SteerMessage{Text: remark}}})
	if err != nil {
		return err
	}
	return p.look()
}

// unseen answers the questions that wait and were not shown.
func (p *person) unseen(ctx context.Context) error {
	r, err := p.client.Approvals(ctx, &symbiov1.ApprovalsRequest{Here: true})
	if err != nil {
		return err
	}
	for _, a := range r.GetApprovals() {
		q := question{ID: a.GetId(), Digest: a.GetDigest(), Tool: a.GetTool()}
		if err := json.Unmarshal(a.GetArgs(), &q.Args); err != nil {
			return err
		}
		if err := p.asked(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// look asks how the agent stands.
func (p *person) look() error {
	return p.say(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Transcript{Transcript: &symbiov1.AskTranscript{}}})
}

// release answers the question that was held.
func (p *person) release(ctx context.Context) error {
	if p.held == nil {
		return nil
	}
	q := *p.held
	p.held = nil
	return p.answer(ctx, q)
}

// answer says yes to the writing of the report, and no to all else.
func (p *person) answer(ctx context.Context, q question) error {
	_, err := p.client.Answer(ctx, &symbiov1.AnswerRequest{Id: q.ID, Digest: q.Digest, By: "the tour", Allow: q.Tool == "Write" && q.Args.File == p.report})
	return err
}
