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
	s, err := scripted.Parse("test", []byte(script))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return scripted.New(s)
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
define:
  lines: '{{ sum (pluck "n" .) }}'
turns:
- name: child
  match: {system: 'You survey one part', user: 'part (?P<part>\S+)'}
  text: 'part {{ .Match.part }} is fine'
- name: plan
  match: {user: 'survey (?P<dir>\S+)', turn: 0, tools: [Glob]}
  text: Looking at {{ .Match.dir }}.
  calls:
  - tool: Glob
    args: {pattern: '{{ .Match.dir }}/*', limit: 10, exact: !json '{{ eq 1 1 }}', in: [a, '{{ .Turn }}', null]}
- name: refused
  match: {failed: true}
  text: 'It was refused: {{ (first .Results).text }}'
- name: ask each
  match: {after: [Glob]}
  calls:
  - for: '{{ json (lines (first .Results).text) }}'
    tool: send_signal
    args: '{{ json (dict "to" .Item "n" .Index "of" (get "args.pattern" (first .Results))) }}'
- name: report
  match: {after: [send_signal], turn: [2, 3]}
  text: |
    {{- $rows := list }}
    {{- range results "send_signal" }}
    {{- $rows = append $rows (dict "to" .args.to "n" (regexFind "[0-9]+" .text)) }}
    {{- end }}
    {{- range sortBy "to" $rows }}{{ .to }}={{ .n }};{{ end }} total {{ template "lines" $rows }}/{{ include "lines" $rows }}
`

func TestOneScriptServesAWholeConversation(t *testing.T) {
	m := parse(t, survey)
	if m.Name() != "scripted:survey" {
		t.Errorf("name = %s", m.Name())
	}
	r := llm.Request{Tools: []llm.ToolSpec{{Name: "Glob"}, {Name: "send_signal"}}, Messages: []llm.Message{user("please survey src now")}}

	got := ask(t, m, r)
	want := llm.Message{Role: llm.Assistant, Text: "Looking at src.", Calls: []llm.ToolCall{
		{ID: "c1", Name: "Glob", Args: json.RawMessage(`{"pattern":"src/*","limit":10,"exact":true,"in":["a","0",null]}`)}}}
	if d := cmp.Diff(want, got.Message); d != "" || got.Stop != llm.StopTools {
		t.Fatalf("plan: stop %s (-want +got):\n%s", got.Stop, d)
	}
	r.Messages = append(r.Messages, got.Message, results(llm.ToolResult{CallID: "c1", Name: "Glob", Text: "b\r\na\r\n"}))

	got = ask(t, m, r)
	want = calls(
		llm.ToolCall{ID: "c2", Name: "send_signal", Args: json.RawMessage(`{"n":0,"of":"src/*","to":"b"}`)},
		llm.ToolCall{ID: "c3", Name: "send_signal", Args: json.RawMessage(`{"n":1,"of":"src/*","to":"a"}`)})
	if d := cmp.Diff(want, got.Message); d != "" {
		t.Fatalf("ask each (-want +got):\n%s", d)
	}
	r.Messages = append(r.Messages, got.Message, results(
		llm.ToolResult{CallID: "c2", Name: "send_signal", Text: "12 lines"}, llm.ToolResult{CallID: "c3", Name: "send_signal", Text: "30 lines"}))

	got = ask(t, m, r)
	if want := "a=30;b=12; total 42/42\n"; got.Message.Text != want || got.Stop != llm.StopEnd {
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
		{"turn of a list", `turn: [0, 2]`, llm.Request{Messages: []llm.Message{user("a"), calls()}}, false},
		{"after one tool, many results", `after: [G]`, llm.Request{Messages: []llm.Message{results(llm.ToolResult{Name: "G"}, llm.ToolResult{Name: "G"})}}, true},
		{"after two in any order", `after: [A, B]`, llm.Request{Messages: []llm.Message{results(llm.ToolResult{Name: "B"}, llm.ToolResult{Name: "A"})}}, true},
		{"after means exactly", `after: [A]`, llm.Request{Messages: []llm.Message{results(llm.ToolResult{Name: "B"}, llm.ToolResult{Name: "A"})}}, false},
		{"after nothing", `after: []`, llm.Request{Messages: []llm.Message{user("a")}}, true},
		{"after nothing but there was", `after: []`, llm.Request{Messages: []llm.Message{failed}}, false},
		{"after only looks at the last message", `after: [Write]`, llm.Request{Messages: []llm.Message{failed, user("x")}}, false},
		{"tools at least", `tools: [A]`, llm.Request{Tools: []llm.ToolSpec{{Name: "B"}, {Name: "A"}}}, true},
		{"tools missing", `tools: [A, C]`, llm.Request{Tools: []llm.ToolSpec{{Name: "B"}, {Name: "A"}}}, false},
		{"result found in one", `result: den`, llm.Request{Messages: []llm.Message{results(llm.ToolResult{Text: "x"}, llm.ToolResult{Text: "denied"})}}, true},
		{"result absent", `result: den`, llm.Request{Messages: []llm.Message{user("denied")}}, false},
		{"failed", `failed: true`, llm.Request{Messages: []llm.Message{failed}}, true},
		{"not failed", `failed: false`, llm.Request{Messages: []llm.Message{failed}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := parse(t, "turns: [{match: {"+c.match+"}, text: ok}]")
			_, err := llm.Collect(m.Stream(t.Context(), c.r), nil)
			var drift *scripted.DriftError
			if got := err == nil; got != c.want || !got && !errors.As(err, &drift) {
				t.Errorf("fits = %v (%v), want %v", got, err, c.want)
			}
		})
	}
}

func TestDriftShowsTheDifference(t *testing.T) {
	m := parse(t, survey)
	_, err := llm.Collect(m.Stream(t.Context(), llm.Request{
		Tools: []llm.ToolSpec{{Name: "Glob"}},
		Messages: []llm.Message{user("survey src" + strings.Repeat("!", 500)), calls(llm.ToolCall{ID: "c1", Name: "Read"}),
			results(llm.ToolResult{CallID: "c1", Name: "Read", Text: "hello\nworld"})},
	}), nil)
	var drift *scripted.DriftError
	if !errors.As(err, &drift) {
		t.Fatalf("error = %v, want a DriftError", err)
	}
	want := `script survey has no turn for this:
  user: "survey src` + strings.Repeat("!", 150) + `"… (510 bytes)
  turn 1 after it, after results of: Read
  results: Read "hello\nworld"
  tools offered: Glob
nearest is turn plan (line 9), but turn differs: want 0, got 1`
	if d := cmp.Diff(want, err.Error()); d != "" {
		t.Errorf("error (-want +got):\n%s", d)
	}
}

func TestFaultsComeAfterTheText(t *testing.T) {
	for _, c := range []struct {
		fault string
		want  error
	}{
		{"error: {status: 429, retry_after: 2s, message: slow}", llm.ErrRateLimited},
		{"error: {status: 401}", llm.ErrAuth},
		{"cut: true", llm.ErrCut},
		{"malformed: true", llm.ErrMalformed},
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

func TestRawArgumentsReachTheToolAsAModelWroteThem(t *testing.T) {
	m := parse(t, `turns: [{calls: [{tool: X, raw: '{"a":'}, {tool: X, raw: '{"a": {{ .Turn }}}'}, {tool: X}]}]`)
	got := ask(t, m, llm.Request{})
	var args []string
	for _, c := range got.Message.Calls {
		args = append(args, string(c.Args))
	}
	if d := cmp.Diff([]string{`"{\"a\":"`, `{"a":0}`, `{}`}, args); d != "" {
		t.Errorf("args (-want +got):\n%s", d)
	}
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
		{"nothing to say", "turns:\n- name: x", "turn x: line 2: the turn has neither text"},
		{"same name", "turns: [{name: a, text: a},\n {name: a, text: a}]", "line 2: two turns are called a"},
		{"bad pattern", "turns:\n- match: {user: '('}\n  text: a", "turn 1: line 2: match.user: error parsing regexp"},
		{"same group", "turns: [{text: a, match: {user: '(?P<a>x)', system: '(?P<a>x)'}}]", "group a is named twice"},
		{"bad template", "turns:\n- text: a\n- text: '{{ nope }}'", "turn 2: line 3: turn 2 text:1: function \"nope\" not defined"},
		{"unquoted template", "turns:\n- text: {{ .User }}", "must stand in quotes"},
		{"unquoted argument", "turns:\n- calls: [{tool: x, args: {a: {{ .User }}}}]", "must stand in quotes"},
		{"bad argument template", "turns:\n- calls:\n  - tool: x\n    args:\n      a: [b, '{{ if }}']", "line 5: turn 1 calls[0].args.a[1]:1: missing value for if"},
		{"no tool", "turns: [{calls: [{args: {}}]}]", "a call needs a tool"},
		{"args and raw", "turns: [{calls: [{tool: x, args: {}, raw: y}]}]", "exclude each other"},
		{"args twice", "turns: [{calls: [{tool: x, args: {a: 1, a: 2}}]}]", `"a" is there twice`},
		{"args list", "turns: [{calls: [{tool: x, args: [1]}]}]", "args is a mapping"},
		{"args tag", "turns: [{calls: [{tool: x, args: {a: !foo b}}]}]", "unknown tag !foo"},
		{"args infinite", "turns: [{calls: [{tool: x, args: {a: .inf}}]}]", "not a JSON value"},
		{"alias", "turns: [{calls: [{tool: x, args: {a: &a {b: *a}}}]}]", "anchor"},
		{"define inside", "turns: [{text: '{{define \"x\"}}{{end}}'}]", "under the script's key define"},
		{"undefined template", "turns: [{text: '{{if true}}{{template \"x\"}}{{end}}'}]", `no template "x" under define`},
		{"bad stop", "turns: [{text: a, stop: never}]", "stop is one of"},
		{"two faults", "turns: [{cut: true, malformed: true}]", "exclude each other"},
		{"status", "turns: [{error: {status: 200}}]", "status of a failed HTTP request"},
		{"duration", "turns: [{text: a, stall: fast}]", "line 1: want a duration"},
		{"turn", "turns: [{text: a, match: {turn: x}}]", "line 1: want a number"},
		{"too large", "#" + strings.Repeat("x", 1<<20), "larger than"},
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
	s, err := scripted.Load(good)
	if err != nil || s.Name() != "good" {
		t.Errorf("Load = %v, %v; want a script called good", s, err)
	}
	if _, err := scripted.Load(bad); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("error = %v, want one that names the file", err)
	}
	if _, err := scripted.Load(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error = %v, want not exist", err)
	}
}

func TestTemplateErrorsNameScriptTurnAndTemplate(t *testing.T) {
	for name, c := range map[string]struct{ turn, want string }{
		"missing group":  {"text: '{{ .Match.x }}'", "script test: turn one: line 1: turn one text:1:9: "},
		"missing key":    {"text: '{{ (dict).x }}'", "map has no entry"},
		"bad arithmetic": {"text: '{{ div 1 0 }}'", "division by"},
		"not an object":  {"calls: [{tool: x, args: '[1]'}]", "want a JSON object"},
		"not JSON":       {"calls: [{tool: x, args: '{{ .User }}'}]", "not JSON"},
		"bad value":      {"calls: [{tool: x, args: {a: !json 'x'}}]", "turn one calls[0].args.a: rendered text is not JSON"},
		"for no list":    {"calls: [{for: '{}', tool: x}]", "want a JSON array"},
		"for not JSON":   {"calls: [{for: 'x', tool: x}]", "calls[0].for: not JSON"},
		"too many calls": {"calls: [{for: '{{ json (seq 1 2000) }}', tool: x}]", "more than 1000 calls"},
		"panic":          {"text: '{{ index .Tools 3 }}'", "out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			m := parse(t, "turns: [{name: one, "+c.turn+"}]")
			_, err := llm.Collect(m.Stream(t.Context(), llm.Request{}), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "script test: turn one") {
				t.Errorf("error = %v, want one with %q", err, c.want)
			}
		})
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
	script, err := scripted.Parse("greeter", []byte(`
turns:
- match: {user: 'I am (?P<name>\w+)'}
  text: 'Hello, {{ .Match.name | upper }}.'
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := llm.Collect(scripted.New(script).Stream(context.Background(), llm.Request{
		Messages: []llm.Message{{Role: llm.User, Text: "I am Ada"}},
	}), nil)
	fmt.Println(answer.Message.Text, err)
	// Output: Hello, ADA. <nil>
}
