package conversation_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"symbio/agent/conversation"
	"symbio/agent/llm"
)

// An answer that does not fit the form is sent back once in an exchange, also after calls, and the history keeps what fits.
func TestAnswerFitsItsForm(t *testing.T) {
	object := `{"type":"object","required":["n"],"properties":{"n":{"type":"integer"}},"additionalProperties":false}`
	cut := text(`{"n":`)
	cut.Stop = llm.StopLength
	call := talks(1)
	call.ID = "1"
	for name, c := range map[string]struct {
		schema   string
		answers  []llm.Response
		want     string // the answer; "" = err
		err      error
		requests int
	}{
		"it fits":                       {object, []llm.Response{text(`{"n":1}`)}, `{"n":1}`, nil, 1},
		"in a code block":               {object, []llm.Response{text("```json\n{\"n\":1}\n```")}, `{"n":1}`, nil, 1},
		"sent back":                     {object, []llm.Response{text("one"), text(`{"n":1}`)}, `{"n":1}`, nil, 2},
		"another type":                  {object, []llm.Response{text(`{"n":"1"}`), text(`{"n":1}`)}, `{"n":1}`, nil, 2},
		"something behind it":           {object, []llm.Response{text(`{"n":1} {"n":2}`), text(`{"n":1}`)}, `{"n":1}`, nil, 2},
		"twice unfit":                   {object, []llm.Response{text("one"), text("two"), text(`{"n":1}`)}, "", llm.ErrUnfit, 2},
		"calls are no answer":           {object, []llm.Response{calls(call), text(`{"n":1}`)}, `{"n":1}`, nil, 2},
		"a call in place of an answer":  {object, []llm.Response{text("one"), calls(call), text(`{"n":1}`)}, `{"n":1}`, nil, 3},
		"unfit after such a call":       {object, []llm.Response{text("one"), calls(call), text("two")}, "", llm.ErrUnfit, 3},
		"cut":                           {object, []llm.Response{cut}, "", llm.ErrCut, 1},
		"a string needs no quotes":      {`{"type":"string"}`, []llm.Response{text(`It is "so".`)}, `"It is \"so\"."`, nil, 1},
		"a string in quotes":            {`{"type":"string"}`, []llm.Response{text(`"so"`)}, `"so"`, nil, 1},
		"a string that is none of them": {`{"type":"string","enum":["yes"]}`, []llm.Response{text(`no`), text("yes")}, `"yes"`, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			form, err := llm.NewForm(llm.Output{Name: "answer", Schema: []byte(c.schema)})
			if err != nil {
				t.Fatal(err)
			}
			s := &sequence{answers: slices.Clone(c.answers)}
			talk := conversation.New(conversation.Config{Model: s.model(), Tools: tools(), Form: form})
			reply, err := talk.Send(t.Context(), "go")
			if !errors.Is(err, c.err) || err == nil && !strings.HasPrefix(reply.Text, c.want) || len(s.requests) != c.requests {
				t.Errorf("%q, %v after %d requests; want %q, %v after %d", reply.Text, err, len(s.requests), c.want, c.err, c.requests)
			}
			if reply.Usage.Output != c.requests {
				t.Errorf("%d requests are counted as %+v", c.requests, reply.Usage)
			}
			for _, line := range texts(talk.Transcript()) {
				if strings.HasSuffix(line, ": one") || strings.Contains(line, "does not fit") {
					t.Errorf("the history keeps %q", line)
				}
			}
			if c.requests == 2 && c.answers[0].Stop == llm.StopEnd {
				last := s.requests[1].Messages
				if n := len(last); last[n-2].Text != c.answers[0].Message.Text || !strings.Contains(last[n-1].Text, c.schema) {
					t.Errorf("the model is told %+v", last)
				}
			}
		})
	}
}

func TestFormsOfBrokenSchemasAreErrors(t *testing.T) {
	for _, schema := range []string{``, `7`, `{"type":7}`, `{"$ref":"https://example.org/x"}`, `{"pattern":"("}`} {
		if _, err := llm.NewForm(llm.Output{Schema: []byte(schema)}); err == nil {
			t.Errorf("%q is a form", schema)
		}
	}
}
