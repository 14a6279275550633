package oracle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"symbio/agent/llm"
)

// roundTrip is a server without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// reply is an answer of such a server.
func reply(status int, kind string, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(body)}
}

// answer is what both make of an answer.
type answer struct {
	Text                  string
	Calls, Thoughts       []string
	Stop                  string
	Input, Output, Cached int
}

// compare has every transcript read by our client and by theirs. Of those in differ they make something else, for that
// reason; of all others they make the same, or both an error. The list is exact.
func compare(t *testing.T, dir string, made func(testing.TB, roundTrip) llm.Model, theirs func(context.Context, roundTrip) (answer, error), stops map[string]llm.Stop, differ map[string]string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		d := difference(t, file, made, theirs, stops)
		if _, but := differ[name]; but == (d == "") {
			t.Errorf("%s: differs is %v, want %v; %s", name, d != "", but, d)
		}
	}
	t.Logf("%d of %d transcripts are read alike", len(files)-len(differ), len(files))
}

// difference is what our client makes otherwise than theirs of an answer.
func difference(t *testing.T, file string, made func(testing.TB, roundTrip) llm.Model, theirs func(context.Context, roundTrip) (answer, error), stops map[string]llm.Stop) string {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	status, kind, body := 200, "text/event-stream", string(a.Files[0].Data)
	for line := range strings.Lines(string(a.Comment)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case k == "status":
			if err := json.Unmarshal([]byte(v), &status); err != nil {
				t.Fatal(err)
			}
		case k == "type":
			kind = v
		case k == "crlf":
			body = strings.ReplaceAll(body, "\n", "\r\n")
		case k == "trim":
			body = strings.TrimSuffix(body, "\n")
		}
	}
	server := func(*http.Request) (*http.Response, error) {
		return reply(status, kind, strings.NewReader(body)), nil
	}
	want, theirErr := theirs(t.Context(), server)
	got, err := llm.Collect(made(t, server).Stream(t.Context(), llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "hello"}}}), nil)
	if err != nil && theirErr != nil {
		return ""
	}
	if err != nil || theirErr != nil {
		return fmt.Sprintf("our error is %v, theirs %v", err, theirErr)
	}
	want.Stop = string(stops[want.Stop])
	ours := answer{Text: got.Message.Text, Stop: string(got.Stop), Input: got.Usage.Input, Output: got.Usage.Output, Cached: got.Usage.CacheRead}
	for _, c := range got.Message.Calls {
		ours.Calls = append(ours.Calls, c.ID+" "+c.Name+" "+string(c.Args))
	}
	for _, th := range got.Message.Thinking {
		if len(th.Raw) > 0 {
			if strings.Contains(string(th.Raw), `"encrypted_content":`) {
				ours.Thoughts = append(ours.Thoughts, string(th.Raw))
			}
			continue // the fields of compatible servers are none of the SDK's
		}
		ours.Thoughts = append(ours.Thoughts, th.Sealed+strings.TrimSpace(th.Text+" "+th.Signature))
	}
	return cmp.Diff(want, ours)
}

func decoded(t *testing.T, body []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	return v
}
