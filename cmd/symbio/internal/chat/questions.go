package chat

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// questions are the approval requests that wait for the person at this terminal. Only the first is
// shown. Each may be answered elsewhere meanwhile (`symbio approvals`, another node). Any text that
// is not a yes denies. It is for one goroutine.
type questions struct {
	client symbiov1.ControlClient
	// open are the requests without an answer, the shown one first. The digest of each ties an
	// answer to the text that was shown.
	open []Question
	// show displays a question.
	show func(q Question)
	// notify displays what became of one.
	notify func(text string)
	// release is called when no question is open any more.
	release func()
}

// Question is an approval request: the event, and its part.
type Question struct {
	event.Event
	event.Approval
}

// answeredElsewhere is shown when a question was answered before this terminal did.
const answeredElsewhere = "answered elsewhere"

// event adds an approval request, or removes one that was answered elsewhere. An answer to a
// request that is not open is ignored: this terminal gave it, or never saw the request.
func (s *questions) event(e event.Event) {
	if a, ok := e.Part.(event.Approval); ok {
		if s.open = append(s.open, Question{e, a}); len(s.open) == 1 {
			s.show(s.open[0])
		}
		return
	}
	i := s.index(event.PartOf[event.Answer](e).ID)
	if i < 0 {
		return
	}
	if i == 0 {
		s.notify(answeredElsewhere)
	}
	s.remove(i)
}

// index returns the index of an open question; -1 if there is none of that id.
func (s *questions) index(id string) int {
	return slices.IndexFunc(s.open, func(q Question) bool { return q.ID == id })
}

// remove removes a question and shows the next one if it was the first.
func (s *questions) remove(i int) {
	if s.open = slices.Delete(s.open, i, i+1); len(s.open) == 0 {
		s.release()
	} else if i == 0 {
		s.show(s.open[0])
	}
}

// answer sends the answer to the first question and removes it. NotFound from the node means that
// it was answered elsewhere at the same moment, which is no error. The digest in the request ties
// the answer to what was shown: the node refuses it when the call has changed. The caller must
// check that a question is open. It blocks until the node has replied.
func (s *questions) answer(ctx context.Context, line string) error {
	q := s.open[0]
	reply := strings.ToLower(strings.TrimSpace(line))
	r := &symbiov1.AnswerRequest{Id: q.ID, Digest: q.Digest}
	r.Always = reply == "a" || reply == "always"
	// Without rules the choice l is not offered, and the letter is a no like any other text.
	r.Lasting = len(q.Rules) > 0 && (reply == "l" || reply == "lasting")
	r.Allow = r.Always || r.Lasting || reply == "y" || reply == "yes"
	number, lasting := strings.CutSuffix(reply, "l")
	if n, err := strconv.ParseUint(number, 10, 32); err == nil && n >= 1 && n <= uint64(len(q.Offers)) {
		r.Allow, r.Offer, r.Lasting = true, uint32(n), lasting
	}
	return s.send(ctx, r)
}

// send sends an answer and removes the question, if it is one of open.
func (s *questions) send(ctx context.Context, r *symbiov1.AnswerRequest) error {
	r.By = "terminal"
	_, err := s.client.Answer(ctx, r)
	if status.Code(err) == codes.NotFound {
		s.notify(answeredElsewhere)
		err = nil
	}
	// After any other error the question is removed, too; the error ends the conversation.
	if i := s.index(r.GetId()); i >= 0 {
		s.remove(i)
	}
	return err
}

// QuestionText returns everything that a person needs for the decision: the agent and its
// requesters, the tool, the arguments, and why it needs approval.
func QuestionText(q Question) string {
	return command.DecisionText(q.Name, q.For, " wants to use ", q.Tool) + "\n" + command.CallText(q.Tool, q.Args) + "\n  " + visible.Escape(q.Why)
}

// choices returns the prompt with the possible answers, and the rules that a lasting answer would
// keep. Enter alone is a no, as the capital letter says.
func choices(q Question) string {
	var b strings.Builder
	more := ""
	for i, o := range q.Offers {
		fmt.Fprintf(&b, "  %d for the session, %dl from now on: %s\n      %s\n", i+1, i+1, visible.Escape(o.Text), strings.Join(command.OfferLines(o.Rules, o.Covers), "\n      "))
	}
	for _, r := range q.Rules {
		fmt.Fprintf(&b, "  l keeps: %s\n", visible.Escape(r))
		more = "l = from now on, "
	}
	return b.String() + "Allow it? [y = once, a = always this call while the agent lives, " + more + "N] "
}
