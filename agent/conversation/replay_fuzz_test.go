package conversation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"symbio/agent/conversation"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/internal/agent/llm/anthropic"
	"symbio/internal/agent/llm/openai"
	"symbio/internal/agent/llm/wire"
)

// errRefused is what a server of refusingServer answers with.
var errRefused = errors.New("no server here")

// sentBody is an http.RoundTripper that keeps the body of a request and fails.
type sentBody struct{ bytes.Buffer }

func (s *sentBody) RoundTrip(r *http.Request) (*http.Response, error) {
	s.Reset()
	_, err := io.Copy(s, r.Body)
	return nil, errors.Join(errRefused, err)
}

// bothWires returns a model that answers "fine" when both wires have sent the request in a form that their
// servers accept; else it reports an error.
func bothWires(t *testing.T) llm.Model {
	t.Helper()
	body := &sentBody{}
	cfg := wire.Config{BaseURL: "http://127.0.0.1:1", Model: "m", HTTP: &http.Client{Transport: body}}
	a, err := anthropic.New(anthropic.Config{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	o, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return llm.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
		if err := conversation.Sound(r.Messages); err != nil {
			t.Error(err)
		}
		for name, m := range map[string]llm.Model{"anthropic": a, "openai": o} {
			_, _ = llm.Collect(m.Stream(ctx, r), nil)
			if err := acceptable(body.Bytes()); err != nil {
				t.Errorf("%s: %v\n%s", name, err, body)
			}
		}
		return llm.Response{Message: llm.Message{Text: "fine"}, Stop: llm.StopEnd}, nil
	})
}

// acceptable returns an error if a server refuses the messages of a request, of either wire: each call has
// its result behind it, and no other result is there.
func acceptable(body []byte) error {
	var request struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
			Calls   []struct{ ID string } `json:"tool_calls"`
			Result  string                `json:"tool_call_id"`
		}
	}
	if err := json.Unmarshal(body, &request); err != nil || len(request.Messages) == 0 {
		return fmt.Errorf("%d messages, %w", len(request.Messages), err)
	}
	var open []string
	before := ""
	for n, m := range request.Messages {
		var blocks []struct {
			Type, ID string
			Result   string `json:"tool_use_id"`
		}
		if len(m.Content) > 0 && m.Content[0] == '[' {
			if err := json.Unmarshal(m.Content, &blocks); err != nil {
				return err
			}
			if m.Role == before {
				return fmt.Errorf("message %d has the role %s, as the one before", n, m.Role)
			}
		}
		results, calls := []string{m.Result}, []string(nil)
		for _, c := range m.Calls {
			calls = append(calls, c.ID)
		}
		for _, b := range blocks {
			if results = append(results, b.Result); b.Type == "tool_use" {
				calls = append(calls, b.ID)
			}
		}
		for _, r := range results {
			if i := slices.Index(open, r); r != "" && i < 0 {
				return fmt.Errorf("message %d has a result of %q, which was not called", n, r)
			} else if r != "" {
				open = slices.Delete(open, i, i+1)
			}
		}
		if len(open) > 0 && m.Role != "tool" {
			return fmt.Errorf("message %d follows calls without results: %q", n, open)
		}
		open, before = append(open, calls...), m.Role
	}
	if len(open) > 0 {
		return fmt.Errorf("the calls %q have no results", open)
	}
	return nil
}

// pastEntries are what a past is made of: entries as conversations record them, and others.
func pastEntries() []session.Entry {
	call := func(ids ...string) (calls []llm.ToolCall) {
		for _, id := range ids {
			calls = append(calls, llm.ToolCall{ID: id, Name: "f", Args: llm.Args(`{"x":1}`)})
		}
		return calls
	}
	answer := func(text string, ids ...string) *llm.Message {
		return &llm.Message{Role: llm.Assistant, Text: text, Calls: call(ids...)}
	}
	result := func(id string) session.Entry {
		return session.Entry{Kind: session.Result, Result: &llm.ToolResult{CallID: id, Name: "f", Text: "r"}}
	}
	user, assistant, tool := llm.Message{Role: llm.User, Text: "u"}, *answer("a"), llm.Message{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1"}}}
	all := []session.Entry{
		{Kind: session.Task, Message: &user}, {Kind: session.Task, Message: &assistant}, {Kind: session.Task, Message: &tool}, {Kind: session.Task},
		{Kind: session.Text, Text: "more"}, {Kind: session.Text}, {Kind: session.Request, Usage: &llm.Usage{Input: 3}}, {Kind: session.Request},
		{Kind: session.Answer, Message: answer("text"), Usage: &llm.Usage{}}, {Kind: session.Answer, Message: answer("", "1")}, {Kind: session.Answer, Message: answer("x", "1", "2")},
		{Kind: session.Answer, Message: answer("", "1", "1")}, {Kind: session.Answer, Message: answer("half"), Status: session.Interrupted},
		{Kind: session.Answer, Message: &user}, {Kind: session.Answer, Message: answer("")}, {Kind: session.Answer},
		{Kind: session.Call, Call: &llm.ToolCall{ID: "1", Name: "f"}}, {Kind: session.Call, Call: &llm.ToolCall{ID: "3"}}, {Kind: session.Call},
		result("1"), result("2"), result("3"), {Kind: session.Result},
		{Kind: session.Compaction, Messages: []llm.Message{user}}, {Kind: session.Compaction, Messages: []llm.Message{user, assistant, user}, Began: 2},
		{Kind: session.Compaction, Messages: []llm.Message{tool, tool}, Began: 1}, {Kind: session.Compaction, Messages: []llm.Message{user, *answer("", "1")}},
		{Kind: session.Compaction, Began: -1}, {Kind: session.Compaction, Messages: []llm.Message{user, assistant}, Began: -1}, {Kind: session.Compaction, Began: 5}, {Kind: session.Compaction, Began: -7},
		{Kind: session.Resume}, {Kind: session.Skill}, {Kind: session.Lent}, {Kind: "unknown"},
	}
	for _, status := range []session.State{session.Done, session.Failed, session.Interrupted} {
		for _, count := range []int{-1, 0, 1, 2, 3, 4, 99} {
			all = append(all, session.Entry{Kind: session.End, Status: status, Count: count})
		}
	}
	return all
}

// Whatever the record of a session is: it goes on with a history that servers accept, or it does not go on.
func FuzzReplay(f *testing.F) {
	all := pastEntries()
	at := func(kinds ...session.Kind) (past []byte) {
		for _, k := range kinds {
			past = append(past, byte(slices.IndexFunc(all, func(e session.Entry) bool { return e.Kind == k })))
		}
		return past
	}
	f.Add(at(session.Task, session.Request, session.Answer, session.End, session.Task, session.Request))
	f.Add(append(at(session.Task, session.Request), 9, 16, 19, 6, 8))
	f.Add(append(at(session.Task), 10, 16, 4, 19, 20))
	f.Add([]byte{0, 10, 20, 16, 31, 0, 8, 35, 23, 9})
	f.Add([]byte{0, 9, 23, 19, 8, 38, 0})
	f.Fuzz(func(t *testing.T, past []byte) { goOn(t, all, past) })
}

// goOn has a conversation go on with a past, which has the entries of all with these numbers.
func goOn(t *testing.T, all []session.Entry, past []byte) {
	cfg := conversation.Config{Model: bothWires(t)}
	for _, b := range past {
		text, err := json.Marshal(all[int(b)%len(all)]) // entries share nothing
		if err != nil {
			t.Fatal(err)
		}
		e := session.Entry{Kind: all[int(b)%len(all)].Kind}
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatal(err)
		}
		cfg.Past = append(cfg.Past, e)
	}
	c := conversation.New(cfg)
	if c.CanResume() {
		if _, err := c.Resume(t.Context(), llm.Message{Text: "note"}); err != nil {
			t.Errorf("it was to go on: %v", err)
		}
	}
	_, err := c.Send(t.Context(), "next")
	if err == nil {
		return
	}
	if !strings.Contains(err.Error(), "its record is incomplete") {
		t.Errorf("the next message: %v", err)
	}
	if err := c.Replace(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Send(t.Context(), "next"); err != nil {
		t.Errorf("after /clear: %v", err)
	}
}
