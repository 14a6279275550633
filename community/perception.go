package community

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	fastjson "github.com/segmentio/encoding/json"
)

// maxTypedDepth is how deep JSON may be nested that becomes a Go value.
const maxTypedDepth = 1000

// Perception is a kind of signal, by its name, with the Go types of the payload and of the reply.
// Sender and receiver declare it once, as a constant; values travel as JSON:
//
//	const Work community.Perception[Task, Report] = "work"
type Perception[In, Out any] string

// Sender sends signals to members. A *Community is one.
type Sender interface {
	Send(ctx context.Context, id MemberID, s Signal) (Reply, error)
	Tell(ctx context.Context, id MemberID, s Signal) error
}

// Send sends in to a member that accepts the perception, of this node or another, and returns its reply. The
// errors come from Community.Send, and ErrAgentFailed for a reply that is not an Out.
func (p Perception[In, Out]) Send(ctx context.Context, c Sender, to MemberID, in In) (out Out, err error) {
	s, err := p.signal(in)
	if err != nil {
		return out, err
	}
	reply, err := c.Send(ctx, to, s)
	if err != nil {
		return out, err
	}
	if out, err = ReadReply[Out](reply); err != nil {
		return out, fmt.Errorf("send %s: %w: %w", printable(string(p)), ErrAgentFailed, err)
	}
	return out, nil
}

// Tell sends in to a member and does not wait, as Community.Tell.
func (p Perception[In, Out]) Tell(ctx context.Context, c Sender, to MemberID, in In) error {
	s, err := p.signal(in)
	if err != nil {
		return err
	}
	return c.Tell(ctx, to, s)
}

// signal encodes in as JSON.
func (p Perception[In, Out]) signal(in In) (Signal, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return Signal{}, fmt.Errorf("send %s: %w: %w", printable(string(p)), ErrInvalid, err)
	}
	return Signal{Perception: string(p), Data: data}, nil
}

// Receive returns a Handler that calls f for signals of the perception. If the data is not an In, the sender gets
// ErrInvalid and f is not called. Empty data is the zero In.
func (p Perception[In, Out]) Receive(f func(ctx context.Context, in In) (Out, error)) Handler {
	return Handler{string(p), typed(f)}
}

// Handler answers the signals of one perception.
type Handler struct {
	perception string
	receive    Provider
}

// Handlers is an Agent that calls, for each signal, the Handler of its perception. An agent that is also a
// Terminator or a Replicator embeds it in a type of its own.
type Handlers []Handler

// Perceptions returns the perceptions of the handlers.
func (h Handlers) Perceptions() []string {
	var all []string
	for _, one := range h {
		all = append(all, one.perception)
	}
	return all
}

// Receive calls the handler of the signal's perception.
func (h Handlers) Receive(ctx context.Context, s Signal) (Reply, error) {
	i := slices.IndexFunc(h, func(one Handler) bool { return one.perception == s.Perception })
	if i < 0 {
		return Reply{}, ErrNotAccepted
	}
	return h[i].receive(ctx, s)
}

// typed wraps f as a Provider that decodes and encodes JSON.
func typed[In, Out any](f func(context.Context, In) (Out, error)) Provider {
	return func(ctx context.Context, s Signal) (Reply, error) {
		var in In
		if len(s.Data) > 0 {
			if err := unmarshal(s.Data, &in); err != nil {
				return Reply{}, fmt.Errorf("%w: %w", ErrInvalid, err)
			}
		}
		out, err := f(ctx, in)
		if err != nil {
			return Reply{}, err
		}
		data, err := json.Marshal(out)
		return Reply{Data: data, ContentType: "application/json"}, err
	}
}

// unmarshal decodes a payload as encoding/json does, which takes 25 times as long for a long text.
func unmarshal(data []byte, v any) error {
	if err := checkDepth(data, maxTypedDepth); err != nil { // the library has no limit
		return err
	}
	return fastjson.Unmarshal(data, v)
}

// ReadReply decodes a reply as an Out. If Out is string, text is returned as it is; everything else is JSON. If
// Out is struct{}, the reply is ignored.
func ReadReply[Out any](r Reply) (out Out, err error) {
	switch v := any(&out).(type) {
	case *struct{}:
		return out, nil
	case *string:
		if strings.HasPrefix(r.ContentType, "text/") {
			*v = string(r.Data)
			return out, nil
		}
	}
	if err := unmarshal(r.Data, &out); err != nil {
		var none Out
		return none, fmt.Errorf("its answer is no %T: %w", none, err)
	}
	return out, nil
}
