package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/visible"
)

// cmdInvoke returns the command invoke, which calls a capability of another node. It passes the
// variables TRACEPARENT and TRACESTATE on, so that the call is part of the caller's trace.
func cmdInvoke(env *command.Env) *cobra.Command {
	var timeout time.Duration
	var on string
	var stream bool
	cmd := &cobra.Command{
		Use:  "invoke CAPABILITY [DATA]",
		Args: command.RangeArgs(1, 2),
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, args []string) error {
			data, err := env.Payload(append(args, "")[1])
			if err != nil {
				return err
			}
			req := &symbiov1.CallRequest{
				Capability: args[0], On: on, Data: data, Timeout: durationpb.New(timeout),
				Traceparent: env.Getenv("TRACEPARENT"), Tracestate: env.Getenv("TRACESTATE"),
			}
			if stream {
				return invokeStream(ctx, env, client, req)
			}
			reply, err := client.Call(ctx, req)
			if err != nil {
				return err
			}
			if env.JSON {
				return env.PrintJSON(toInvokeResult(reply))
			}
			return env.PrintPayload(reply.GetData())
		}),
	}
	cmd.Flags().StringVar(&on, "on", "", "`TARGET`: the member or node to ask, by id or name (default any provider)")
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "longest `DURATION` to wait for the result")
	cmd.Flags().BoolVar(&stream, "stream", false, "print progress and output as they come")
	return cmd
}

// invokeResultJSON is the result of a capability. The JSON names are a contract.
type invokeResultJSON struct {
	// Type is "result" in a stream, else missing.
	Type string `json:"type,omitempty"`
	// Result is the output, as JSON or a JSON string.
	Result json.RawMessage `json:"result"`
	// Node is the id of the node that answered, NodeName its name.
	Node     string `json:"node"`
	NodeName string `json:"node_name"`
}

// toInvokeResult returns a reply as it stands in the output.
func toInvokeResult(r *symbiov1.CallReply) invokeResultJSON {
	return invokeResultJSON{Result: command.PayloadJSON(r.GetData()), Node: r.GetNode(), NodeName: r.GetNodeName()}
}

// invokeStream calls a capability and prints progress and output as they come, until the result. A
// stream without a result is an error.
func invokeStream(ctx context.Context, env *command.Env, client symbiov1.ControlClient, req *symbiov1.CallRequest) error {
	stream, err := client.CallStream(ctx, req)
	if err != nil {
		return err
	}
	show := &streamPrinter{env: env}
	for {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = errors.New("the node ended the call without a result")
		}
		if err != nil {
			return errors.Join(show.lineBreak(), err)
		}
		if env.JSON {
			err = show.json(e)
		} else {
			err = show.text(e)
		}
		if err != nil || e.GetReply() != nil {
			return err
		}
	}
}

// streamPrinter prints the events of one call.
type streamPrinter struct {
	env *command.Env
	// printed holds the end of the output so far, at most 2*maxPrinted bytes: enough to tell
	// whether the result repeats it.
	printed []byte
}

// maxPrinted is the largest result of a capability, in bytes.
const maxPrinted = 4 << 20

// text prints an event for people: output to standard output, progress to standard error.
func (s *streamPrinter) text(e *symbiov1.CallEvent) error {
	switch {
	case e.GetReply() != nil:
		return s.result(e.GetReply().GetData())
	case e.GetChunk() != nil:
		data := e.GetChunk().GetData()
		s.printed = append(s.printed, data...)
		if len(s.printed) > 2*maxPrinted {
			s.printed = append([]byte(nil), s.printed[len(s.printed)-maxPrinted:]...)
		}
		_, err := s.env.Out.Write(terminalText(s.env, data))
		return err
	}
	p := e.GetProgress()
	if p == nil {
		// An event of a type that a later version added.
		return nil
	}
	line := terminal.Printable(p.GetMessage())
	if p.GetTotal() > 0 && !strings.Contains(line, "%") {
		line = strings.TrimSpace(fmt.Sprintf("%3.0f%% %s", 100*p.GetDone()/p.GetTotal(), line))
	}
	_, err := fmt.Fprintln(s.env.Err, line)
	return err
}

// result prints the result, unless it repeats what was printed last. Many capabilities stream their
// output and then return all of it.
func (s *streamPrinter) result(data []byte) error {
	if err := s.lineBreak(); err != nil {
		return err
	}
	if text := bytes.TrimSpace(plainText(data)); len(s.printed) > 0 && bytes.HasSuffix(bytes.TrimSpace(s.printed), text) {
		return nil
	}
	return s.env.PrintPayload(data)
}

// lineBreak ends a line that the output left unfinished.
func (s *streamPrinter) lineBreak() error {
	if n := len(s.printed); n == 0 || s.printed[n-1] == '\n' {
		return nil
	}
	_, err := fmt.Fprintln(s.env.Out)
	return err
}

// plainText returns the text of a payload: that of a JSON string, else the payload itself.
func plainText(data []byte) []byte {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return []byte(text)
	}
	return data
}

// terminalText removes from another node's output what could control the terminal. A file or a pipe
// gets all bytes.
func terminalText(env *command.Env, data []byte) []byte {
	if !env.OutIsTerminal {
		return data
	}
	return bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || visible.Rune(r) {
			return r
		}
		return -1
	}, data)
}

// json prints an event as one JSON object.
func (s *streamPrinter) json(e *symbiov1.CallEvent) error {
	switch {
	case e.GetReply() != nil:
		out := toInvokeResult(e.GetReply())
		out.Type = "result"
		return s.env.PrintLine(out)
	case e.GetChunk() != nil:
		c := e.GetChunk()
		out := outputLine{Type: "output", ContentType: c.GetContentType(), Missed: e.GetMissed()}
		if utf8.Valid(c.GetData()) {
			out.Text = string(c.GetData())
		} else {
			out.Base64 = c.GetData()
		}
		return s.env.PrintLine(out)
	case e.GetProgress() != nil:
		p := e.GetProgress()
		return s.env.PrintLine(progressLine{"progress", p.GetMessage(), p.GetDone(), p.GetTotal(), e.GetMissed()})
	}
	return nil
}

// progressLine and outputLine are lines of `symbio invoke --stream --json`. The names are a
// contract. Total is missing while it is not known; Missed counts events that were dropped before
// this one because the reader was too slow.
type progressLine struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	// Done and Total are in units of the capability's choice.
	Done float64 `json:"done,omitempty"`
	// Total is missing while it is not known.
	Total  float64 `json:"total,omitempty"`
	Missed uint64  `json:"missed,omitempty"`
}

// outputLine is a part of the output: Text if it is UTF-8, else Base64.
type outputLine struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	// Base64 is output that is not UTF-8.
	Base64 []byte `json:"base64,omitempty"`
	// ContentType is the MIME type, if the provider names one.
	ContentType string `json:"content_type,omitempty"`
	Missed      uint64 `json:"missed,omitempty"`
}
