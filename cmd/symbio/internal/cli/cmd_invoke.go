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
	cmd.Flags().StringVar(&on, "on", "", "the member or node that is to do it, by id or name")
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "how long to wait for the result")
	cmd.Flags().BoolVar(&stream, "stream", false, "show progress and output as they come")
	return cmd
}

// invokeResultJSON is a capability's result.
type invokeResultJSON struct {
	Type     string          `json:"type,omitempty"` // in a stream
	Result   json.RawMessage `json:"result"`
	Node     string          `json:"node"`
	NodeName string          `json:"node_name"`
}

func toInvokeResult(r *symbiov1.CallReply) invokeResultJSON {
	return invokeResultJSON{Result: command.PayloadJSON(r.GetData()), Node: r.GetNode(), NodeName: r.GetNodeName()}
}

// invokeStream invokes a capability and shows what is heard of it until it is done.
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

// streamPrinter shows the events of one call.
type streamPrinter struct {
	env *command.Env
	// printed is the end of the output so far: as much as a result could repeat.
	printed []byte
}

// maxPrinted is how many bytes of the output are remembered; no result has more.
const maxPrinted = 4 << 20

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
		return nil // of a later version
	}
	line := terminal.Printable(p.GetMessage())
	if p.GetTotal() > 0 && !strings.Contains(line, "%") {
		line = strings.TrimSpace(fmt.Sprintf("%3.0f%% %s", 100*p.GetDone()/p.GetTotal(), line))
	}
	_, err := fmt.Fprintln(s.env.Err, line)
	return err
}

// result prints the result, unless it is what was printed last.
func (s *streamPrinter) result(data []byte) error {
	if err := s.lineBreak(); err != nil {
		return err
	}
	if text := bytes.TrimSpace(plainText(data)); len(s.printed) > 0 && bytes.HasSuffix(bytes.TrimSpace(s.printed), text) {
		return nil
	}
	return s.env.PrintPayload(data)
}

// lineBreak ends the line that output ended in the middle of.
func (s *streamPrinter) lineBreak() error {
	if n := len(s.printed); n == 0 || s.printed[n-1] == '\n' {
		return nil
	}
	_, err := fmt.Fprintln(s.env.Out)
	return err
}

// plainText is an answer's text: that of a JSON string, else as it is.
func plainText(data []byte) []byte {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return []byte(text)
	}
	return data
}

// terminalText is text of another node as a terminal may have it; a file or a pipe gets it as it is.
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

type progressLine struct {
	Type    string  `json:"type"`
	Message string  `json:"message"`
	Done    float64 `json:"done,omitempty"`
	Total   float64 `json:"total,omitempty"` // none = not known
	Missed  uint64  `json:"missed,omitempty"`
}

type outputLine struct {
	Type        string `json:"type"`
	Text        string `json:"text,omitempty"`
	Base64      []byte `json:"base64,omitempty"` // what is no text
	ContentType string `json:"content_type,omitempty"`
	Missed      uint64 `json:"missed,omitempty"`
}
