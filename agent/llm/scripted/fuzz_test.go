package scripted_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"symbio/agent/llm"
	"symbio/agent/llm/scripted"
)

// FuzzParse reads any script and, when it is one, has it answer: neither may panic or run away.
func FuzzParse(f *testing.F) {
	f.Add([]byte(survey))
	f.Add([]byte("turns:\n- text: a\n- match: {turn: [1,2], after: []}\n  error: {status: 429, retry_after: 1s}\n"))
	f.Add([]byte("turns: [{calls: [{for: '[1]', tool: x, args: {a: !json '{{ .Item }}', b: [null, 1.5, {c: d}]}}], stop: length}]"))
	f.Add([]byte("turns: [{match: {task: '(?P<a>.)', turn: 1, after: [Grep]}, text: '{{ .Task }}{{ json .Said }}{{ len (results) }}{{ len .Results }}'}]"))
	f.Add([]byte("turns: &t [{text: a}, *t]"))
	f.Add([]byte("define: {a: '{{ template \"a\" }}'}\nturns: [{text: '{{ include \"a\" 1 }}'}]"))
	f.Fuzz(func(t *testing.T, script []byte) {
		s, err := scripted.Parse("fuzz", script)
		if err != nil {
			return
		}
		answer(t, s)
	})
}

// FuzzRender renders any template.
func FuzzRender(f *testing.F) {
	for _, c := range functionCases {
		f.Add(c.template)
	}
	f.Fuzz(func(t *testing.T, template string) {
		if len(template) > 500 {
			return
		}
		quoted, err := json.Marshal(template)
		if err != nil || !utf8.ValidString(template) {
			return
		}
		s, err := scripted.Parse("fuzz", []byte("define: {double: '{{ mul 2 . }}'}\nturns: [{text: "+string(quoted)+", calls: [{tool: x, args: {a: "+string(quoted)+"}}]}]"))
		if err != nil {
			return
		}
		answer(t, s)
	})
}

func answer(t *testing.T, s *scripted.Script) {
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	begin := time.Now()
	got, err := llm.Collect(scripted.New(s).Stream(ctx, conversation), nil)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it went on for %v after its context had ended", took)
	}
	if err != nil {
		if strings.Contains(err.Error(), "panic: ") {
			t.Errorf("panic: %v", err)
		}
		return
	}
	ids := map[string]bool{"1": true, "2": true, "3": true}
	for _, c := range got.Message.Calls {
		if !json.Valid(c.Args) || ids[c.ID] || c.Name == "" {
			t.Errorf("call %+v", c)
		}
		ids[c.ID] = true
	}
}
