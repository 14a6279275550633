package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"symbio/cmd/symbio/internal/command"
	"symbio/cmd/symbio/internal/terminal"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
)

// cmdInvoke returns the command invoke, which calls a capability of another node. It passes the
// variables TRACEPARENT and TRACESTATE on, so that the call is part of the caller's trace.
//
// DATA is JSON, other text that becomes a JSON string, or - for standard input. Its exit status is
// 3 when the provider or a rule denies the call, 4 when no node offers the capability, and 5 when
// the call cannot be delivered or takes longer than --timeout.
func cmdInvoke(env *command.Env) *cobra.Command {
	var timeout time.Duration
	var on string
	var stream bool
	cmd := &cobra.Command{
		Use:  "invoke CAPABILITY [DATA]",
		Args: command.RangeArgs(1, 2),
		RunE: env.OnNode(func(ctx context.Context, client symbiov1.ControlClient, args []string) error {
			// Without DATA the input is null.
			data, err := command.Payload(env.In, append(args, "")[1])
			if err != nil {
				return err
			}
			req := &symbiov1.CallRequest{
				// The node, not this process, ends the call after the timeout.
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
	cmd.Flags().DurationVar(&timeout, "timeout", command.CallTimeout, "longest `DURATION` to wait for the result")
	cmd.Flags().BoolVar(&stream, "stream", false, "print progress and output as they come")
	return cmd
}

// invokeResultJSON is the result of a capability. The JSON names are a contract. It is one value
// without --stream, and the last line with it.
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
//
// It blocks until the result, an error, or the end of ctx, which cancels the call at the provider.
// A slow reader of the output slows the provider down; output is never dropped, progress may be.
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
			// The message about the error begins a line of its own.
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

// streamPrinter prints the events of one call. It is for one goroutine.
type streamPrinter struct {
	env *command.Env
	// printed holds the end of the output so far, at most 2*maxPrinted bytes: enough to tell
	// whether the result repeats it.
	printed []byte
	// cut is the beginning of a character that the last chunk ended in, on a terminal.
	cut []byte
}

// maxPrinted is the largest result of a capability, in bytes. It is the largest value that
// limits.message can have.
const maxPrinted = 4 << 20

// text prints an event for people: output to standard output, progress to standard error. Output
// goes out byte for byte to a file or a pipe; see terminalText.
func (s *streamPrinter) text(e *symbiov1.CallEvent) error {
	switch {
	case e.GetReply() != nil:
		return s.result(e.GetReply().GetData())
	case e.GetChunk() != nil:
		data := e.GetChunk().GetData()
		s.printed = append(s.printed, data...)
		// The end is copied, so that the memory of the rest can be freed. Cutting at twice the size
		// copies each byte at most once on average.
		if len(s.printed) > 2*maxPrinted {
			s.printed = append([]byte(nil), s.printed[len(s.printed)-maxPrinted:]...)
		}
		if s.env.OutIsTerminal {
			data = slices.Concat(s.cut, data)
			whole := wholeCharacters(data)
			data, s.cut = data[:whole], data[whole:]
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
	// Done and total have units that only the provider knows, so they are shown as a percentage.
	if p.GetTotal() > 0 && !strings.Contains(line, "%") {
		line = strings.TrimSpace(fmt.Sprintf("%3.0f%% %s", 100*p.GetDone()/p.GetTotal(), line))
	}
	_, err := fmt.Fprintln(s.env.Err, line)
	return err
}

// result prints the result, unless it repeats what was printed last. Many capabilities stream their
// output and then return all of it. The comparison ignores white space at both ends. An empty
// result counts as a repetition of any output.
func (s *streamPrinter) result(data []byte) error {
	if err := s.lineBreak(); err != nil {
		return err
	}
	if text := bytes.TrimSpace(plainText(data)); len(s.printed) > 0 && bytes.HasSuffix(bytes.TrimSpace(s.printed), text) {
		return nil
	}
	return s.env.PrintPayload(data)
}

// lineBreak ends a line that the output left unfinished. It prints nothing when there was no
// output. Printing to a pipe, it adds a byte that the provider did not send.
func (s *streamPrinter) lineBreak() error {
	if n := len(s.printed); n == 0 || s.printed[n-1] == '\n' {
		return nil
	}
	_, err := fmt.Fprintf(s.env.Out, "%s\n", terminalText(s.env, s.cut))
	s.cut = nil
	return err
}

// wholeCharacters returns the length of data without an unfinished character at its end.
func wholeCharacters(data []byte) int {
	for i := len(data) - 1; i >= max(0, len(data)-utf8.UTFMax); i-- {
		if utf8.RuneStart(data[i]) {
			if utf8.FullRune(data[i:]) {
				break
			}
			return i
		}
	}
	return len(data)
}

// plainText returns the text of a payload: the text of a JSON string, else the payload itself.
// PrintPayload prints the result in the same form, so the two can be compared.
func plainText(data []byte) []byte {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return []byte(text)
	}
	return data
}

// terminalText removes from another node's output what could control the terminal. A file or a pipe
// gets all bytes. Line breaks and tabs are kept. Invalid UTF-8 becomes U+FFFD.
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

// json prints an event as one JSON object. An event of a type that a later version added prints
// nothing.
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

// progressLine is a report of progress in `symbio invoke --stream --json`. The JSON names are a
// contract.
type progressLine struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	// Done and Total are in units of the capability's choice. A provider that counts nothing leaves
	// it 0.
	Done float64 `json:"done,omitempty"`
	// Total is missing while it is not known.
	Total float64 `json:"total,omitempty"`
	// Missed counts the reports of progress that were dropped before this event, because the reader
	// was too slow.
	Missed uint64 `json:"missed,omitempty"`
}

// outputLine is a part of the output: Text if it is UTF-8, else Base64. The JSON names are a
// contract. Parts are cut anywhere, also in the middle of a line.
type outputLine struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	// Base64 is output that is not UTF-8.
	Base64 []byte `json:"base64,omitempty"`
	// ContentType is the MIME type, if the provider names one.
	ContentType string `json:"content_type,omitempty"`
	// Missed counts dropped reports of progress, as in progressLine. Output itself is never
	// dropped.
	Missed uint64 `json:"missed,omitempty"`
}
