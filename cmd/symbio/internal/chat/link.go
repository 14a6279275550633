package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"symbio/agent/event"
	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/actor/backoff"
	"symbio/internal/agent/node/control"
	symbiov1 "symbio/proto/symbio/v1"
)

// link is the connection of a conversation to its node. Another one replaces it when the node is back.
// Its zero value is the link of a conversation whose node is gone: it has no events and no end.
type link struct {
	// client answers approvals.
	client symbiov1.ControlClient
	// stream carries requests to the node and events back. Only run sends, only receive reads.
	stream symbiov1.Control_ConverseClient
	// events has no buffer, so run has every event before over gets the end of the stream. over has
	// one place, so that receive can end after run has returned.
	events chan event.Event
	over   chan error
	// close ends the stream and receive; done is closed then.
	close context.CancelFunc
	done  <-chan struct{}
}

// openLink opens a conversation. The caller must run receive.
func openLink(ctx context.Context, client symbiov1.ControlClient, req *symbiov1.RunRequest) (*link, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := client.Converse(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	if err := stream.Send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Open{Open: req}}); err != nil {
		err = streamError(stream, err)
		cancel()
		return nil, err
	}
	return &link{client: client, stream: stream, events: make(chan event.Event), over: make(chan error, 1), close: cancel, done: ctx.Done()}, nil
}

// receive passes the events of the stream on until it ends, and then the error that ended it: io.EOF
// at a normal end. before are events that were received already. It runs in a goroutine of its own,
// because Recv blocks and cannot be part of a select.
func (l *link) receive(ctx context.Context, before ...event.Event) {
	for {
		var e event.Event
		if len(before) > 0 {
			e, before = before[0], before[1:]
		} else {
			var err error
			if e, err = control.Receive(l.stream.Recv); err != nil {
				l.over <- err
				return
			}
		}
		select {
		case l.events <- e:
		case <-ctx.Done():
			l.over <- context.Cause(ctx)
			return
		case <-l.done:
			return
		}
	}
}

// send sends a request to the node. io.EOF means that the stream has ended; run reports the reason.
func (l *link) send(r *symbiov1.ConverseRequest) error {
	err := l.stream.Send(r)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// next sends the next message.
func (l *link) next(text string, pictures ...*symbiov1.Picture) error {
	return l.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Next{Next: &symbiov1.NextMessage{Text: text, Pictures: pictures}}})
}

// askTranscript asks the node what the agent remembers. The event "transcript" has it.
func (l *link) askTranscript() error {
	return l.send(&symbiov1.ConverseRequest{Say: &symbiov1.ConverseRequest_Transcript{Transcript: &symbiov1.AskTranscript{}}})
}

// redialer connects a conversation again to a node that is gone. start must not be called again
// before links had its result.
type redialer struct {
	env *command.Env
	// req is the request that the conversation was opened with.
	req *symbiov1.RunRequest
	// group has the goroutines of the conversation.
	group *errgroup.Group
	// links gets the new link, or why there will be none. It has one place.
	links chan redialResult
	// dial connects to a node. It is (*command.Env).DialNode.
	dial func(name string) (symbiov1.ControlClient, *grpc.ClientConn, error)
}

// redialResult is the result of a redialer.
type redialResult struct {
	link *link
	err  error
}

// The pauses between two attempts to reach a node that is gone.
const (
	firstRedial = 100 * time.Millisecond
	maxRedial   = 2 * time.Second
)

// start begins to connect to the node of a session, until ctx ends.
func (r *redialer) start(ctx context.Context, s sessionRef) {
	open := r.request(s.id)
	r.group.Go(func() error {
		for failures := 1; ; failures++ {
			err := r.open(ctx, s.node, open)
			if err == nil {
				return nil
			}
			if status.Code(err) == codes.NotFound && !s.taken && open.Session != "" { // the node had no task of it, and kept nothing
				open.Session = ""
				continue
			}
			if !command.IsUnavailable(err) {
				r.links <- redialResult{err: fmt.Errorf("going on with session %s: %w", s.id, err)}
				return nil
			}
			select {
			case <-time.After(backoff.Delay(failures, firstRedial, maxRedial)):
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// request returns the request that goes on with a session.
func (r *redialer) request(session string) *symbiov1.RunRequest {
	open := proto.CloneOf(r.req)
	open.Task, open.Session, open.Pictures = "", session, nil
	return open
}

// open makes one attempt. When the node has sent an event, the conversation is open: then open
// passes the link on, and returns when the link has ended.
func (r *redialer) open(ctx context.Context, node string, req *symbiov1.RunRequest) error {
	client, conn, err := r.dial(node)
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	}
	// The calls of the agent mean files in this directory, unless the person named the node.
	here, err := r.env.Workspace()
	if err != nil {
		return err
	}
	s, err := client.Status(ctx, &symbiov1.StatusRequest{})
	if err != nil {
		return err
	}
	if at := s.GetWorkspace(); r.env.Node == "" && !command.SameDir(at, here) {
		return fmt.Errorf("node %s is back, but in another directory, %s", node, terminal.Printable(at))
	}
	l, err := openLink(ctx, client, req)
	if err != nil {
		return err
	}
	first, err := control.Receive(l.stream.Recv)
	if err != nil {
		return err
	}
	r.links <- redialResult{link: l}
	l.receive(ctx, first)
	return nil
}
