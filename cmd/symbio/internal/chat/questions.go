package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/command"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/visible"
)

// questions are the decisions that wait for the person at this terminal, of which the first is put. Each may be answered elsewhere meanwhile. Whatever is not
// a yes is a no.
type questions struct {
	client symbiov1.ControlClient
	open   []event.Fields
	// ask shows a question, tell what became of it.
	show    func(q event.Fields)
	notify func(text string)
}

// answeredElsewhere is what is told of a question that somebody else was faster to answer.
const answeredElsewhere = "answered elsewhere"

// event takes what is asked and what has been answered.
func (s *questions) event(e event.Event) error {
	q, err := e.Fields()
	if err != nil {
		return err
	}
	if e.Type == "approval" {
		if s.open = append(s.open, q); len(s.open) == 1 {
			s.show(q)
		}
		return nil
	}
	i := slices.IndexFunc(s.open, func(o event.Fields) bool { return o.ID == q.ID })
	if i < 0 {
		return nil // it was answered here
	}
	if i == 0 {
		s.notify(answeredElsewhere)
	}
	s.remove(i)
	return nil
}

func (s *questions) remove(i int) {
	s.open = slices.Delete(s.open, i, i+1)
	if i == 0 && len(s.open) > 0 {
		s.show(s.open[0])
	}
}

// answer answers the question that is put.
func (s *questions) answer(ctx context.Context, line string) error {
	q := s.open[0]
	reply := strings.ToLower(strings.TrimSpace(line))
	r := &symbiov1.AnswerRequest{Id: q.ID, Digest: q.Digest, By: "terminal"}
	r.Always = reply == "a" || reply == "always"
	r.Lasting = len(q.Rules) > 0 && (reply == "l" || reply == "lasting")
	r.Allow = r.Always || r.Lasting || reply == "y" || reply == "yes"
	_, err := s.client.Answer(ctx, r)
	if status.Code(err) == codes.NotFound { // in this very moment
		s.notify(answeredElsewhere)
		err = nil
	}
	s.remove(0)
	return err
}

// questionText is all that a person decides by.
func questionText(q event.Fields) string {
	return fmt.Sprintf("%s wants to use %s\n%s\n  %s", command.Chain(q.Name, q.For), visible.Escape(q.Tool), command.CallText(q.Args), visible.Escape(q.Why))
}

// choices say what may be answered, and what an answer that lasts would keep.
func choices(q event.Fields) string {
	if len(q.Rules) == 0 {
		return "Allow it? [y = once, a = always this call while the agent lives, N] "
	}
	var b strings.Builder
	for _, r := range q.Rules {
		fmt.Fprintf(&b, "  l keeps: %s\n", visible.Escape(r))
	}
	return b.String() + "Allow it? [y = once, a = always this call while the agent lives, l = from now on, N] "
}
