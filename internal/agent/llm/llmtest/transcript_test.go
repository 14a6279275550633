package llmtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"symbio/agent/llm"
)

// roundTrip is a server without a network.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reply is an answer of such a server.
func reply(status int, kind string, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(body)}
}

// earlier is a conversation with two calls in it.
var earlier = llm.Request{Messages: []llm.Message{
	{Role: llm.User, Text: "hello"},
	{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "old", Name: "A"}, {ID: "c2", Name: "A"}}},
	{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "old", Name: "A"}, {CallID: "c2", Name: "A"}}},
}}

// heard writes down an answer in the words of the transcripts.
func heard(ctx context.Context, m llm.Model, r llm.Request) string {
	var b strings.Builder
	thought := ""
	got, err := llm.Collect(m.Stream(ctx, r), func(c llm.Chunk) { thought += c.Thought })
	if thought != "" {
		fmt.Fprintf(&b, "thought %q\n", thought)
	}
	for _, t := range got.Message.Thinking {
		if len(t.Raw) > 0 {
			fmt.Fprintf(&b, "kept after %d bytes and %d calls, of call %q: %s\n", t.AfterText, t.AfterCalls, t.CallID, t.Raw)
			continue
		}
		fmt.Fprintf(&b, "thinking after %d bytes and %d calls: %q, signature %q, sealed %q\n", t.AfterText, t.AfterCalls, t.Text, t.Signature, t.Sealed)
	}
	if got.Message.Text != "" {
		fmt.Fprintf(&b, "text %q\n", got.Message.Text)
	}
	for _, c := range got.Message.Calls {
		fmt.Fprintf(&b, "call %s %s %s\n", c.ID, c.Name, c.Args)
	}
	if u := got.Usage; u != (llm.Usage{}) {
		fmt.Fprintf(&b, "usage %d %d", u.Input, u.Output)
		if u.CacheRead+u.CacheWrite > 0 {
			fmt.Fprintf(&b, ", of the cache %d read, %d written", u.CacheRead, u.CacheWrite)
		}
		if u.Reasoning > 0 {
			fmt.Fprintf(&b, ", %d of thoughts", u.Reasoning)
		}
		b.WriteString("\n")
	}
	if got.Stop != "" {
		fmt.Fprintf(&b, "stop %s\n", got.Stop)
	}
	if err != nil {
		fmt.Fprintf(&b, "error %s\n", strings.TrimPrefix(err.Error(), "model "+m.Name()+": "))
	}
	return b.String()
}

// playTranscripts plays the transcripts of a directory: the first lines say what is odd about them, and how they are
// sent (status, type, crlf, trim; form asks for an answer in a form); response is what the server sends, want what
// is made of it. made returns a model whose server is s, and which repeats nothing.
func playTranscripts(t *testing.T, dir string, made func(t testing.TB, s roundTrip) llm.Model) {
	for name, a := range transcripts(t, dir) {
		t.Run(name, func(t *testing.T) {
			how := map[string]string{"status": "200", "type": "text/event-stream"}
			for line := range strings.Lines(string(a.Comment)) {
				if k, v, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && !strings.Contains(k, " ") {
					how[k] = v
				}
			}
			var status int
			if _, err := fmt.Sscan(how["status"], &status); err != nil {
				t.Fatal(err)
			}
			body, want := string(a.Files[0].Data), string(a.Files[1].Data)
			if how["crlf"] == "yes" {
				body = strings.ReplaceAll(body, "\n", "\r\n")
			}
			if how["trim"] == "yes" {
				body = strings.TrimSuffix(body, "\n")
			}
			r := earlier
			if how["form"] != "" {
				r.Output = &llm.Output{Name: how["form"], Schema: json.RawMessage(`{"type":"object"}`)}
			}
			for way, in := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
			} {
				m := made(t, func(*http.Request) (*http.Response, error) {
					return reply(status, how["type"], in(strings.NewReader(body))), nil
				})
				if d := cmp.Diff(want, heard(t.Context(), m, r)); d != "" {
					t.Errorf("%s (-want +got):\n%s", way, d)
				}
			}
		})
	}
}

func transcripts(t testing.TB, dir string) map[string]*txtar.Archive {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts in %s: %v", dir, err)
	}
	all := map[string]*txtar.Archive{}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".txtar")] = a
	}
	return all
}

// fuzzAnswers reads any answer, beginning with those of the transcripts in dir: no panic, and whatever is yielded keeps
// package llm's promises. made is as for playTranscripts.
func fuzzAnswers(f *testing.F, dir string, made func(t testing.TB, s roundTrip) llm.Model) {
	for _, a := range transcripts(f, dir) {
		f.Add(a.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m := made(t, func(*http.Request) (*http.Response, error) {
			return reply(200, "", strings.NewReader(string(body))), nil
		})
		ids := map[string]bool{"old": true, "c2": true}
		ended := false
		for c, err := range m.Stream(t.Context(), earlier) {
			if ended {
				t.Fatalf("%+v, %v after the end of %q", c, err, body)
			}
			var e *llm.Error
			if err != nil && !errors.As(err, &e) {
				t.Fatalf("error %v from %q", err, body)
			}
			if c.Call != nil && (ids[c.Call.ID] || !json.Valid(c.Call.Args)) {
				t.Fatalf("call %+v from %q", c.Call, body)
			}
			if c.Call != nil {
				ids[c.Call.ID] = true
			}
			ended = err != nil || c.Stop != ""
		}
		if !ended {
			t.Fatalf("no end from %q", body)
		}
	})
}
