package acpcmd

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync"

	acp "github.com/coder/acp-go-sdk"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/agent/node/control"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// talk is a conversation with an agent of a node. receive is its only goroutine beside those that ask the editor.
type talk struct {
	session *editorSession
	client  symbiov1.ControlClient
	// conn is nil for a client of a test.
	conn      *grpc.ClientConn
	stream    nodeStream
	end       context.CancelFunc
	view      view
	questions questions
	// ready is closed at the first settings; named has the id of the session then, "" if none is kept. changing has a token while
	// settings are not in force yet. settings and results have a place for the reply that is waited for.
	ready             chan struct{}
	named             string
	changing          chan struct{}
	settings, results chan event.Event
	patch             patchOffer
	// done is closed when the conversation has ended, with err.
	done chan struct{}
	err  error
}

// nodeStream carries messages to a node, one at a time, and events back.
type nodeStream struct {
	symbiov1.Control_ConverseClient
	sending sync.Mutex
}

// questions are those that the editor has not answered: open ends each, by its id, and is used by receive only. asking has their
// goroutines.
type questions struct {
	open   map[string]context.CancelFunc
	asking sync.WaitGroup
}

// startTalk begins a conversation on the node of a session.
func startTalk(s *editorSession, open *symbiov1.RunRequest) (*talk, error) {
	client, conn, err := s.server.options.dial(s.node)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(s.server.ctx)
	stream, err := client.Converse(ctx)
	if err == nil {
		err = stream.Send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Open{Open: open}})
	}
	if err != nil {
		cancel()
		closeConn(conn)
		return nil, err
	}
	t := &talk{session: s, client: client, conn: conn, stream: nodeStream{Control_ConverseClient: stream}, end: cancel, view: view{dir: s.dir, mode: s.mode},
		questions: questions{open: map[string]context.CancelFunc{}}, ready: make(chan struct{}), changing: make(chan struct{}, 1),
		settings: make(chan event.Event, 1), results: make(chan event.Event, 1), done: make(chan struct{})}
	t.changing <- struct{}{} // until the first settings
	if !s.server.run(func() { t.receive(ctx) }) {
		cancel()
		closeConn(conn)
		return nil, context.Canceled
	}
	return t, nil
}

// tell sends a message to the node. The reason of a stream that has ended comes from done.
func (t *talk) tell(r *symbiov1.ConverseRequest) {
	t.stream.sending.Lock()
	defer t.stream.sending.Unlock()
	_ = t.stream.Send(r)
}

// alive reports whether the conversation has not ended.
func (t *talk) alive() bool {
	select {
	case <-t.done:
		return false
	default:
		return true
	}
}

// receive passes the events on until the conversation ends.
func (t *talk) receive(ctx context.Context) {
	for {
		e, err := control.Receive(t.stream.Recv)
		if err != nil {
			t.err = t.session.explain(ctx, err)
			break
		}
		t.event(ctx, e)
	}
	t.end()
	t.questions.asking.Wait()
	closeConn(t.conn)
	close(t.done)
}

// closeConn closes a connection; a test has nil. All calls on it have ended, so its error says nothing.
func closeConn(conn *grpc.ClientConn) {
	if conn != nil {
		_ = conn.Close()
	}
}

// event handles one event.
func (t *talk) event(ctx context.Context, e event.Event) {
	if t.session.remote && e.Agent != "" { // there are no settings
		t.begun(e.Agent)
	}
	switch f := e.Part.(type) {
	case event.Session:
		if e.Agent != "" && !t.session.remote {
			if t.named = f.ID; f.Taken || f.Tasks > 0 {
				t.session.kept(f.ID)
			}
		}
	case event.Approval:
		t.ask(ctx, chat.Question{Event: e, Approval: f})
	case event.Patch:
		t.patched(e, f)
	case event.Answer:
		if cancel := t.questions.open[f.ID]; cancel != nil {
			cancel()
			delete(t.questions.open, f.ID)
		}
	}
	updates := t.view.updates(e)
	if e.Type == event.TypeSettings {
		t.settled(e)
	}
	for _, u := range updates {
		t.session.update(u)
	}
	if e.Type == event.TypeResult {
		if t.named != "" {
			t.session.kept(t.named)
		}
		if !t.offer(ctx, e) {
			put(t.results, e)
		}
		if event.PartOf[event.End](e).Over { // the next message needs another agent
			t.end()
		}
	}
}

// settled notes the settings that are in force.
func (t *talk) settled(e event.Event) {
	t.session.modeIs(t.view.mode)
	if !t.begun(e.Agent) {
		put(t.settings, e)
	}
}

// begun notes that the conversation has begun, and reports whether it does so for the first time. A new session gets its id then.
func (t *talk) begun(agent string) bool {
	select {
	case <-t.ready:
		return false
	default:
		if t.session.id == "" {
			t.session.id = acp.SessionId(cmp.Or(t.named, agent))
		}
		close(t.ready)
		<-t.changing
		return true
	}
}

// put puts an event into a channel with one place, in the place of an earlier one.
func put(to chan event.Event, e event.Event) {
	select {
	case <-to:
	default:
	}
	to <- e
}

// ask asks the editor about a call, beside the events, and gives the answer to the node. A question that is answered elsewhere is
// taken back.
func (t *talk) ask(ctx context.Context, q chat.Question) {
	ctx, cancel := context.WithCancel(ctx)
	t.questions.open[q.ID] = cancel
	request := acp.RequestPermissionRequest{SessionId: t.session.id, ToolCall: t.view.asked(q), Options: optionsOf(q)}
	t.questions.asking.Go(func() {
		defer cancel()
		reply, err := t.session.server.conn.RequestPermission(ctx, request)
		if ctx.Err() != nil {
			return
		}
		answer := answerOf(reply)
		answer.Id, answer.Digest = q.ID, q.Digest
		if err != nil {
			answer.Reason = "the editor could not ask a person"
		}
		_, err = t.client.Answer(ctx, answer)
		if err != nil && status.Code(err) != codes.NotFound && ctx.Err() == nil { // not found: it was answered elsewhere
			t.session.update(acp.UpdateAgentThoughtText("\nThe answer did not count: " + command.ErrorText(ctx, err) + "\n"))
		}
	})
}

// The ids of the options of a question. An offer has its number behind offerOption.
const (
	onceOption   = "once"
	alwaysOption = "always"
	noOption     = "no"
	offerOption  = "offer-"
)

// optionsOf returns the answers that a person can give.
func optionsOf(q chat.Question) []acp.PermissionOption {
	options := []acp.PermissionOption{
		{OptionId: onceOption, Kind: acp.PermissionOptionKindAllowOnce, Name: "Allow once"},
		{OptionId: alwaysOption, Kind: acp.PermissionOptionKindAllowAlways, Name: "Always allow this call"},
	}
	for i, o := range q.Offers {
		options = append(options, acp.PermissionOption{OptionId: acp.PermissionOptionId(offerOption + strconv.Itoa(i+1)),
			Kind: acp.PermissionOptionKindAllowAlways, Name: "For this session: " + visible.Escape(o.Text)})
	}
	return append(options, acp.PermissionOption{OptionId: noOption, Kind: acp.PermissionOptionKindRejectOnce, Name: "Reject"})
}

// answerOf returns the answer of a person. All but the options that allow is a no.
func answerOf(r acp.RequestPermissionResponse) *symbiov1.AnswerRequest {
	answer := &symbiov1.AnswerRequest{By: "editor"}
	if r.Outcome.Selected == nil {
		answer.Reason = "the prompt was cancelled"
		return answer
	}
	option := string(r.Outcome.Selected.OptionId)
	answer.Always = option == alwaysOption
	answer.Allow = answer.Always || option == onceOption
	if number, ok := strings.CutPrefix(option, offerOption); ok {
		n, err := strconv.ParseUint(number, 10, 32)
		answer.Allow, answer.Offer = err == nil && n > 0, uint32(n)
	}
	return answer
}
