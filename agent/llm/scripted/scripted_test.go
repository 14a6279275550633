package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
	"symbio/agent/llm/scripted"
)

func parse(t testing.TB, script string) *scripted.Model {
	t.Helper()
	m, err := scripted.Parse("test", []byte(script))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return m
}

func ask(t testing.TB, m llm.Model, r llm.Request) llm.Response {
	t.Helper()
	got, err := llm.Collect(m.Stream(t.Context(), r), nil)
	if err != nil {
		t.Fatalf("answer: %v", err)
	}
	return got
}

func user(text string) llm.Message { return llm.Message{Role: llm.User, Text: text} }

func calls(calls ...llm.ToolCall) llm.Message {
	return llm.Message{Role: llm.Assistant, Calls: calls}
}

func results(results ...llm.ToolResult) llm.Message {
	return llm.Message{Role: llm.Tool, Results: results}
}

const survey = `
name: survey
turns:
- name: child
  match: {system: 'You survey one part', user: 'part (?P<part>\S+)'}
  text: 'part {{part}} is fine'
- name: plan
  match: {user: 'survey (?P<dir>\S+)', turn: 0}
  text: Looking at {{dir}}.
  calls:
  - tool: Glob
    args: {pattern: '{{ dir }}/*', limit: 10, exact: true, in: [a, '{{turn}}', null, {of: '{{dir}}'}]}
- name: ask
  match: {user: 'survey', after: [Glob], result: '(?P<first>\S+)\s+(?P<second>\S+)'}
  calls:
  - {tool: send_signal, args: {to: '{{first}}', n: 0}}
  - {tool: send_signal, args: {to: '{{second}}', n: 1}}
  - {tool: list}
- name: report
  match: {after: [send_signal, list], turn: 2}
  text: "{{user}}: {{result}}"
`

func TestOneScriptServesAWholeConversation(t *testing.T) {
	m := parse(t, survey)
	if m.Name() != "scripted:survey" {
		t.Errorf("name = %s", m.Name())
	}
	if got := ask(t, m, llm.Request{System: "You survey one part.", Messages: []llm.Message{user("part a b")}}); got.Message.Text != "part a is fine" {
		t.Errorf("child = %q", got.Message.Text)
	}
	r := llm.Request{Messages: []llm.Message{user("please survey src now")}}

	got := ask(t, m, r)
	want := llm.Message{Role: llm.Assistant, Text: "Looking at src.", Calls: []llm.ToolCall{
		{ID: "c1", Name: "Glob", Args: json.RawMessage(`{"exact":true,"in":["a","0",null,{"of":"src"}],"limit":10,"pattern":"src/*"}`)}}}
	if d := cmp.Diff(want, got.Message); d != "" || got.Stop != llm.StopTools {
		t.Fatalf("plan: stop %s (-want +got):\n%s", got.Stop, d)
	}
	r.Messages = append(r.Messages, got.Message, results(llm.ToolResult{CallID: "c1", Name: "Glob", Text: "b\r\na\r\n"}))

	got = ask(t, m, r)
	want = calls(
		llm.ToolCall{ID: "c2", Name: "send_signal", Args: json.RawMessage(`{"n":0,"to":"b"}`)},
		llm.ToolCall{ID: "c3", Name: "send_signal", Args: json.RawMessage(`{"n":1,"to":"a"}`)},
		llm.ToolCall{ID: "c4", Name: "list", Args: json.RawMessage(`{}`)})
	want.Role = llm.Assistant
	if d := cmp.Diff(want, got.Message); d != "" {
		t.Fatalf("ask (-want +got):\n%s", d)
	}
	r.Messages = append(r.Messages, got.Message, results(llm.ToolResult{CallID: "c2", Name: "send_signal", Text: "12 lines"},
		llm.ToolResult{CallID: "c3", Name: "send_signal", Text: "30 {{turn}}"}, llm.ToolResult{CallID: "c4", Name: "list"}))

	got = ask(t, m, r)
	if want := "please survey src now: 12 lines\n30 {{turn}}\n"; got.Message.Text != want || got.Stop != llm.StopEnd {
		t.Errorf("report = %q, %s; want %q, end", got.Message.Text, got.Stop, want)
	}
}

func TestMatchesDecideTheTurn(t *testing.T) {
	failed := results(llm.ToolResult{CallID: "c1", Name: "Write", Text: "denied", IsError: true})
	for _, c := range []struct {
		name, match string
		r           llm.Request
		want        bool
	}{
		{"nothing asked", ``, llm.Request{}, true},
		{"system found", `system: 'a+'`, llm.Request{System: "xaay"}, true},
		{"system absent", `system: 'a+'`, llm.Request{System: "b"}, false},
		{"last user text", `user: '^b$'`, llm.Request{Messages: []llm.Message{user("a"), user("b")}}, true},
		{"not an earlier one", `user: '^a$'`, llm.Request{Messages: []llm.Message{user("a"), user("b")}}, false},
		{"turn counts since the user spoke", `turn: 1`, llm.Request{Messages: []llm.Message{user("a"), calls(), user("b"), calls()}}, true},
		{"after one tool, many results", `after: [G]`, llm.Request{Messages: []llm.Message{results(llm.ToolResult{Name: "G"}, llm.ToolResult{Name: "G"})}}, true},
		{"after two in any order", `after: [A, B]`, llm.Request{Messages: []llm.Message{results(llm.ToolResult{Name: "B"}, llm.ToolResult{Name: "A"})}}, true},
		{"after means exactly", `after: [A]`, llm.Request{Messages: []llm.Message{results(llm.ToolResult{Name: "B"}, llm.ToolResult{Name: "A"})}}, false},
		{"after nothing", `after: []`, llm.Request{Messages: []llm.Message{user("a")}}, true},
		{"after nothing but there was", `after: []`, llm.Request{Messages: []llm.Message{failed}}, false},
		{"after only looks at the last message", `after: [Write]`, llm.Request{Messages: []llm.Message{failed, user("x")}}, false},
		{"result found in one", `result: den`, llm.Request{Messages: []llm.Message{results(llm.ToolResult{Text: "x"}, llm.ToolResult{Text: "denied"})}}, true},
		{"result absent", `result: den`, llm.Request{Messages: []llm.Message{user("denied")}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := parse(t, "turns: [{match: {"+c.match+"}, text: ok}]")
			_, err := llm.Collect(m.Stream(t.Context(), c.r), nil)
			if got := err == nil; got != c.want || !got && !errors.Is(err, llm.ErrDrift) {
				t.Errorf("fits = %v (%v), want %v", got, err, c.want)
			}
		})
	}
}

func TestDriftShowsWhatWasAsked(t *testing.T) {
	m := parse(t, survey)
	_, err := llm.Collect(m.Stream(t.Context(), llm.Request{Messages: []llm.Message{
		user("survey src" + strings.Repeat("!", 500)), calls(llm.ToolCall{ID: "c1", Name: "Read"}), results(llm.ToolResult{CallID: "c1", Name: "Read", Text: "hello\nworld"}),
	}}), nil)
	want := `model scripted:survey: no answer fits the request: the script has no turn for user message "survey src` + strings.Repeat("!", 150) +
		`"… (510 bytes), turn 1, after results of Read: "hello\nworld"`
	if !errors.Is(err, llm.ErrDrift) || err.Error() != want {
		t.Errorf("error = %v\nwant %s", err, want)
	}
}

func TestErrorComesAfterTheText(t *testing.T) {
	for _, c := range []struct {
		fault string
		want  error
	}{
		{"error: {status: 429, retry_after: 2s, message: slow}", llm.ErrRateLimited},
		{"error: {status: 401}", llm.ErrAuth},
	} {
		m := parse(t, "turns: [{text: half an answer, "+c.fault+"}]")
		got, err := llm.Collect(m.Stream(t.Context(), llm.Request{}), nil)
		if !errors.Is(err, c.want) || got.Message.Text != "half an answer" {
			t.Errorf("%s: got %q, %v", c.fault, got.Message.Text, err)
		}
		var e *llm.Error
		if errors.As(err, &e); c.want == llm.ErrRateLimited && (e.RetryAfter != 2*time.Second || e.Detail != "slow" || e.Status != 429) {
			t.Errorf("%s: error = %+v", c.fault, e)
		}
	}
}

func TestStallWaitsAndEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, "turns: [{stall: 1h, text: late}]")
		begin := time.Now()
		if got := ask(t, m, llm.Request{}); got.Message.Text != "late" || time.Since(begin) != time.Hour {
			t.Errorf("got %q after %v, want late after 1h", got.Message.Text, time.Since(begin))
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		begin = time.Now()
		if _, err := llm.Collect(m.Stream(ctx, llm.Request{}), nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("got %v after %v, want the deadline after 1m", err, time.Since(begin))
		}
	})
}

func TestUsageIsWhatTheScriptSaysOrAnEstimate(t *testing.T) {
	m := parse(t, "turns: [{match: {user: a}, text: b, usage: {input: 7, output: 9}}, {text: 12345}]")
	if got := ask(t, m, llm.Request{Messages: []llm.Message{user("a")}}).Usage; got != (llm.Usage{Input: 7, Output: 9}) {
		t.Errorf("usage = %+v, want 7 and 9", got)
	}
	if got := ask(t, m, llm.Request{System: "1234", Messages: []llm.Message{user("1")}}).Usage; got != (llm.Usage{Input: 2, Output: 2}) {
		t.Errorf("usage = %+v, want 2 and 2", got)
	}
}

func TestParseNamesWhatIsWrongAndWhere(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"empty", "", "the file is empty"},
		{"no turns", "name: x", "no turns"},
		{"unknown key", "turns:\n- text: a\n  txt: b", "line 3: unknown key txt in a turn"},
		{"unknown key in match", "turns:\n- text: a\n  match: {usr: b}", "line 3: unknown key usr in a match"},
		{"unknown key in call", "turns:\n- calls: [{tool: x, arg: {}}]", "line 2: unknown key arg in a call"},
		{"repeated key", "turns:\n- text: a\n  text: b", `line 3: mapping key "text" already defined at line 2`},
		{"two documents", "turns: [{text: a}]\n---\nturns: []", "more than one document"},
		{"nothing to say", "turns:\n- name: x", "turn x: it has neither text"},
		{"bad pattern", "turns:\n- match: {user: '('}\n  text: a", "error parsing regexp"},
		{"same group", "turns: [{text: a, match: {user: '(?P<a>x)', system: '(?P<a>x)'}}]", "turn 1: match: the name of the group a is taken"},
		{"a placeholder's group", "turns: [{text: a, match: {user: '(?P<turn>x)'}}]", "the name of the group turn is taken"},
		{"unknown placeholder", "turns:\n- text: a\n- text: '{{ nope }}'", "turn 2: text: {{ nope }} is no placeholder: write {{user}}"},
		{"an action of a template", "turns: [{text: '{{ .User }}'}]", "{{ .User }} is no placeholder"},
		{"another turn's group", "turns: [{text: a, match: {user: '(?P<a>x)'}}, {text: '{{a}}'}]", "turn 2: text: {{a}} is no placeholder"},
		{"unknown placeholder in args", "turns: [{calls: [{tool: x, args: {a: [b, '{{c}}']}}]}]", "turn 1: the args of x: {{c}} is no placeholder"},
		{"unquoted placeholder", "turns:\n- text: {{user}}", "cannot unmarshal"},
		{"no tool", "turns: [{calls: [{args: {}}]}]", "a call needs a tool"},
		{"args list", "turns: [{calls: [{tool: x, args: [1]}]}]", "cannot unmarshal"},
		{"args infinite", "turns: [{calls: [{tool: x, args: {a: .inf}}]}]", "the args of x cannot be JSON"},
		{"bad stop", "turns: [{text: a, stop: never}]", "stop is one of"},
		{"status", "turns: [{error: {status: 200}}]", "status of a failed HTTP request"},
		{"usage", "turns: [{text: a, usage: {input: -1}}]", "usage cannot be negative"},
		{"duration", "turns: [{text: a, stall: fast}]", "line 1: cannot unmarshal"},
		{"turn", "turns: [{text: a, match: {turn: x}}]", "line 1: cannot unmarshal"},
		{"too large", "#" + strings.Repeat("x", 4<<20), "larger than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := scripted.Parse("test", []byte(c.script))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestLoadReadsAFileAndNamesItInErrors(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for file, text := range map[string]string{good: "turns: [{text: a}]", bad: "turns: 1"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := scripted.Load(good)
	if err != nil || m.Name() != "scripted:good" {
		t.Errorf("Load = %v, %v; want a script called good", m, err)
	}
	if _, err := scripted.Load(bad); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("error = %v, want one that names the file", err)
	}
	if _, err := scripted.Load(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error = %v, want not exist", err)
	}
}

func TestAnswersArriveInPiecesAtCharacterBoundaries(t *testing.T) {
	text := strings.Repeat("äöü€", 5)
	var pieces []string
	_, err := llm.Collect(parse(t, "turns: [{text: '"+text+"'}]").Stream(t.Context(), llm.Request{}), func(c llm.Chunk) {
		if c.Text != "" {
			pieces = append(pieces, c.Text)
		}
	})
	if err != nil || len(pieces) < 2 || strings.Join(pieces, "") != text {
		t.Errorf("pieces = %q, %v", pieces, err)
	}
	for _, p := range pieces {
		if strings.ContainsRune(p, '\uFFFD') {
			t.Errorf("piece %q cuts a character", p)
		}
	}
}

func ExampleParse() {
	model, err := scripted.Parse("greeter", []byte(`
turns:
- match: {user: 'I am (?P<name>\w+)'}
  text: 'Hello, {{name}}.'
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := llm.Collect(model.Stream(context.Background(), llm.Request{
		Messages: []llm.Message{{Role: llm.User, Text: "I am Ada"}},
	}), nil)
	fmt.Println(answer.Message.Text, err)
	// Output: Hello, Ada. <nil>
}

// FuzzParse reads any script and, when it is one, has it answer: neither may panic, and calls are as package llm promises.
func FuzzParse(f *testing.F) {
	f.Add([]byte(survey))
	f.Add([]byte("turns:\n- text: a\n- match: {turn: 1, after: []}\n  error: {status: 429, retry_after: 1s}\n"))
	f.Add([]byte("turns: [{match: {result: '(?P<a>.)'}, calls: [{tool: x, args: {a: '{{a}}', b: [null, 1.5, {c: d}]}}], stop: length}]"))
	f.Add([]byte("turns: &t [{text: a}, *t]"))
	f.Fuzz(func(t *testing.T, script []byte) {
		m, err := scripted.Parse("fuzz", script)
		if err != nil {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
			defer stop()
			got, err := llm.Collect(m.Stream(ctx, llm.Request{Messages: []llm.Message{
				user("survey a"), calls(llm.ToolCall{ID: "c1", Name: "x"}), results(llm.ToolResult{CallID: "c1", Name: "x", Text: "total 1"}),
			}}), nil)
			if err != nil {
				return
			}
			ids := map[string]bool{"c1": true}
			for _, c := range got.Message.Calls {
				if !json.Valid(c.Args) || ids[c.ID] || c.Name == "" {
					t.Errorf("call %+v", c)
				}
				ids[c.ID] = true
			}
		})
	})
}
