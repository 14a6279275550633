package openai_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"symbio/agent/llm"
)

type capital struct {
	City string `json:"city"`
}

type loose struct {
	City string `json:"city,omitempty"`
}

// form is what a request says of the answer's form.
type form struct {
	Format *struct {
		Type   string
		Schema struct {
			Name   string
			Strict bool
			Schema json.RawMessage
		} `json:"json_schema"`
	} `json:"response_format"`
	Messages []struct{ Role, Content string }
}

func TestFormIsAskedForAsTheServerKnowsIt(t *testing.T) {
	var asked []form
	refuses := ""
	server := func(r *http.Request) (*http.Response, error) {
		var f form
		if err := json.NewDecoder(r.Body).Decode(&f); err != nil {
			t.Error(err)
		}
		asked = append(asked, f)
		if f.Format != nil && refuses != "" {
			return reply(400, "", strings.NewReader(`{"error":{"message":"`+refuses+`"}}`)), nil
		}
		return reply(200, "", strings.NewReader(`data: {"choices":[{"delta":{"content":"{\"city\":\"Oslo\"}"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")), nil
	}
	got, err := llm.Generate[capital](t.Context(), served(t, server), "x")
	if err != nil || got.City != "Oslo" || len(asked) != 1 || asked[0].Format == nil || asked[0].Format.Type != "json_schema" ||
		asked[0].Format.Schema.Name != "capital" || !asked[0].Format.Schema.Strict {
		t.Errorf("got %+v, %v after %+v", got, err, asked)
	}
	asked = nil
	if _, err := llm.Generate[loose](t.Context(), served(t, server), "x"); err != nil || asked[0].Format.Schema.Strict {
		t.Errorf("a field that may be missing: strict %v, %v", asked[0].Format.Schema.Strict, err)
	}

	asked, refuses = nil, "response_format: unknown field"
	m := served(t, server)
	for range 2 {
		if got, err := llm.Generate[capital](t.Context(), m, "x"); err != nil || got.City != "Oslo" {
			t.Errorf("a server that does not know forms: %+v, %v", got, err)
		}
	}
	if len(asked) != 3 || asked[1].Format != nil || asked[2].Format != nil || asked[1].Messages[0].Role != "system" ||
		!strings.Contains(asked[1].Messages[0].Content, `"city"`) {
		t.Errorf("asked %+v; want once with the form, then in words", asked)
	}

	asked, refuses = nil, "messages: too many"
	if _, err := llm.Generate[capital](t.Context(), served(t, server), "x"); err == nil || len(asked) != 1 {
		t.Errorf("another complaint: %v after %d requests", err, len(asked))
	}
}

func TestImagesAreSentAsPartsAndBehindResults(t *testing.T) {
	var body []byte
	m := served(t, func(r *http.Request) (*http.Response, error) {
		body, _ = io.ReadAll(r.Body)
		return reply(401, "", strings.NewReader("")), nil
	})
	img := []llm.Image{{Type: "image/png", Data: []byte("\x89PNG\r\n\x1a\n rest")}}
	_, _ = llm.Collect(m.Stream(t.Context(), llm.Request{Messages: []llm.Message{
		{Role: llm.User, Text: "what is it?", Images: img},
		{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "1", Name: "Look"}, {ID: "2", Name: "Look"}}},
		{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1", Name: "Look", Text: "a", Images: img}, {CallID: "2", Name: "Look", Text: "b"}}},
		{Role: llm.User, Images: img},
	}}), nil)
	const image = `{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgogcmVzdA=="}}`
	for _, want := range []string{
		`{"role":"user","content":[` + image + `,{"type":"text","text":"what is it?"}]}`,
		`{"role":"tool","content":"a","tool_call_id":"1"},{"role":"tool","content":"b","tool_call_id":"2"},{"role":"user","content":[{"type":"text","text":"What Look shows (1):"},` + image + `]}`,
		`{"role":"user","content":[` + image + `]}`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("body %s\nhas no %s", body, want)
		}
	}
	body = nil
	_, err := llm.Collect(m.Stream(t.Context(),
		llm.Request{Messages: []llm.Message{{Role: llm.User, Images: []llm.Image{{Type: "image/png", Data: []byte("x")}}}}}), nil)
	if err == nil || body != nil || !strings.Contains(err.Error(), "text/plain") {
		t.Errorf("an image that is none: %v", err)
	}
}

func TestModelThatTakesNoImagesIsToldOfThem(t *testing.T) {
	img := []llm.Image{{Type: "image/png", Data: []byte("\x89PNG\r\n\x1a\n rest")}}
	look := llm.Request{Messages: []llm.Message{
		{Role: llm.Assistant, Calls: []llm.ToolCall{{ID: "1", Name: "Look"}}},
		{Role: llm.Tool, Results: []llm.ToolResult{{CallID: "1", Name: "Look", Text: "a", Images: img}}},
	}}
	for name, c := range map[string]struct {
		status int
		says   string
		want   []bool // of the requests of two turns, whether they had the image
	}{
		"only certain models":  {400, "Invalid content type. image_url is only supported by certain models.", []bool{true, false, false}},
		"not multimodal":       {400, "m is not a multimodal model", []bool{true, false, false}},
		"a strict reader":      {422, "messages[2]: unknown variant `image_url`, expected `text`", []bool{true, false, false}},
		"as a failure":         {500, "image input is not supported - hint: you may need to provide the mmproj", []bool{true, false, false}},
		"a picture it hates":   {400, "could not process image", []bool{true, false, true, false}},
		"something else":       {400, "messages: too many", []bool{true, true}},
		"an image of its disk": {404, "no image was pulled", []bool{true, true}},
	} {
		var had []bool
		m := served(t, func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			had = append(had, strings.Contains(string(body), "iVBORw0KGgogcmVzdA=="))
			if had[len(had)-1] {
				text, err := json.Marshal(map[string]any{"error": map[string]any{"message": c.says}})
				return reply(c.status, "", strings.NewReader(string(text))), err
			}
			if !strings.Contains(string(body), "not shown: image/png, 13 bytes") {
				t.Errorf("%s: no description in %s", name, body)
			}
			return reply(200, "", strings.NewReader(`data: {"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")), nil
		})
		for range 2 {
			_, err := llm.Collect(m.Stream(t.Context(), look), nil)
			if answered := slices.Contains(had, false); answered != (err == nil) {
				t.Errorf("%s: %v after %v", name, err, had)
			}
		}
		if !slices.Equal(had, c.want) {
			t.Errorf("%s: requests with the image: got %v, want %v", name, had, c.want)
		}
	}
}
