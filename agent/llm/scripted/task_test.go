package scripted_test

import (
	"errors"
	"strings"
	"testing"

	"symbio/agent/llm"
	"symbio/agent/llm/scripted"
)

const steered = `
turns:
- name: end
  match: {task: '^go to (?P<place>\w+)', turn: 2, after: [Look], result: sun}
  text: '{{ .Match.place }} after {{ .Turn }}, {{ len (results "Look") }} looks, last {{ (first .Results).text }}, said {{ json .Said }} in {{ .Task }}'
- name: again
  match: {task: '^go to', turn: 1, after: [Look], failed: true}
  text: '{{ len .Said }} said, {{ .User }}, {{ len .Results }} results'
- name: begin
  match: {task: '^go', turn: 0, after: []}
  text: 'begin {{ .Task }}/{{ .User }}/{{ json .Said }}'
- name: as before
  match: {user: '^hurry', turn: 0, after: []}
  text: 'user {{ .User }} task {{ .Task }} turn {{ .Turn }} results {{ len (results) }}'
- name: late
  match: {user: '^hurry', turn: 1, after: [Look]}
  text: 'late {{ len (results) }}'
`

func TestATaskGoesOnWhenSomethingIsSaidMeanwhile(t *testing.T) {
	look := calls(llm.ToolCall{ID: "1", Name: "Look", Args: []byte(`{}`)})
	rain := results(llm.ToolResult{CallID: "1", Name: "Look", Text: "rain", IsError: true})
	sun := results(llm.ToolResult{CallID: "2", Name: "Look", Text: "sun"})
	other := results(llm.ToolResult{CallID: "3", Name: "Ask", Text: "no"})
	m := parse(t, steered)
	for _, c := range []struct {
		name, want string
		messages   []llm.Message
	}{
		{"nothing was said yet", `begin go to sea/go to sea/[]`, []llm.Message{user("go to sea")}},
		{"said behind the first results", `1 said, hurry, 1 results`, []llm.Message{user("go to sea"), look, rain, user("hurry")}},
		{"nothing was said", `0 said, go to sea, 1 results`, []llm.Message{user("go to sea"), look, rain}},
		{
			"said twice, and before the last results", `sea after 2, 2 looks, last sun, said ["hurry","hurry up"] in go to sea`,
			[]llm.Message{user("go to sea"), look, rain, user("hurry"), look, sun, user("hurry up")},
		},
		{"what was said in the task before counts no more", `begin go home/go home/[]`, []llm.Message{user("go to sea"), look, rain, user("hurry"), {Role: llm.Assistant, Text: "done"}, user("go home")}},
		{"user sees what was said last, as if it began there", `user hurry task stay turn 0 results 0`, []llm.Message{user("stay"), look, rain, user("hurry")}},
		{"user counts from what was said", `late 1`, []llm.Message{user("stay"), look, other, user("hurry"), look, rain}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ask(t, m, llm.Request{Messages: c.messages}).Message.Text; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestADriftSaysWhatTheTaskIs(t *testing.T) {
	m := parse(t, "turns: [{name: only, match: {task: '^go (?P<x>home)', after: [Ask]}, text: a}]")
	_, err := llm.Collect(m.Stream(t.Context(), llm.Request{Messages: []llm.Message{
		user("stay"), calls(llm.ToolCall{ID: "1", Name: "Ask", Args: []byte(`{}`)}), results(llm.ToolResult{CallID: "1", Name: "Ask"}), user("hurry"),
	}}), nil)
	var d *scripted.DriftError
	if !errors.As(err, &d) || d.Condition != "task" || d.Got != `"stay"` || d.Task != `"stay"` || d.User != `"hurry"` || !strings.Contains(err.Error(), "\n  task: \"stay\"\n") {
		t.Errorf("error = %v, want one that names the task", err)
	}
}

func TestATaskPatternIsReadAsTheOthers(t *testing.T) {
	for script, want := range map[string]string{
		"turns:\n- match: {task: '('}\n  text: a":                                            "turn 1: line 2: match.task: error parsing regexp",
		"turns: [{text: a, match: {user: '(?P<a>x)', task: '(?P<a>x)'}}]":                    "group a is named twice",
		"turns:\n- match:\n    task: a\n    tsk: b\n  text: a":                               "unknown key tsk in a match",
		"turns: [{text: '{{ .Task }} {{ range .Said }}{{ . }}{{ end }}', match: {task: x}}]": "",
	} {
		_, err := scripted.Parse("test", []byte(script))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error = %v, want %q", script, err, want)
		}
	}
}
