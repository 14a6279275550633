package llm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"symbio/agent/llm"
)

type colour string

func (colour) Enum() []string { return []string{"red", "green"} }

type loop struct{ Next *loop }

type city struct {
	Name    string            `json:"name" jsonschema:"its name in English"`
	People  int               `json:"people"`
	Colour  colour            `json:"colour,omitempty"`
	Founded time.Time         `json:"founded,omitzero"`
	Twin    *string           `json:"twin,omitempty"`
	Walk    time.Duration     `json:"walk,omitempty"`
	Tags    map[string]string `json:"tags,omitempty"`
}

// answering is a model that gives these answers in turn, and remembers what it was asked.
func answering(asked *[]llm.Request, answers ...string) llm.Model {
	return llm.Func(func(_ context.Context, r llm.Request) (llm.Response, error) {
		*asked = append(*asked, r)
		return llm.Response{Message: llm.Message{Text: answers[min(len(*asked), len(answers))-1]}, Usage: llm.Usage{Input: 10, Output: 1}}, nil
	})
}

func TestGenerateGivesAValue(t *testing.T) {
	twin := "Bergen"
	for text, want := range map[string]city{
		`{"name":"Oslo","people":700000}`: {Name: "Oslo", People: 700000},
		"```json\n{\"name\":\"Oslo\",\"people\":1,\"colour\":\"red\",\"founded\":\"1048-01-02T00:00:00Z\",\"twin\":\"Bergen\",\"walk\":5,\"tags\":{\"a\":\"b\"}}\n```": {
			Name: "Oslo", People: 1, Colour: "red", Founded: time.Date(1048, 1, 2, 0, 0, 0, 0, time.UTC), Twin: &twin, Walk: 5,
			Tags: map[string]string{"a": "b"}},
		` {"name":"","people":0,"twin":null} `: {},
	} {
		var asked []llm.Request
		got, err := llm.Generate[city](t.Context(), answering(&asked, text), "Which city?", "Be brief.")
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, d)
		}
		if len(asked) != 1 || asked[0].Messages[0].Text != "Which city?\n\nBe brief." || asked[0].Output == nil || asked[0].Output.Name != "city" {
			t.Errorf("asked %+v", asked)
		}
	}
}

func TestAnswerThatDoesNotFitIsSentBackOnce(t *testing.T) {
	const good = `{"name":"Oslo","people":1}`
	for name, c := range map[string]struct{ bad, says string }{
		"prose":            {"It is Oslo.", "not JSON"},
		"nothing":          {"", "no JSON"},
		"half":             {`{"name":"Oslo"`, "not JSON"},
		"two":              {good + good, "more behind"},
		"a missing field":  {`{"name":"Oslo"}`, "people"},
		"another type":     {`{"name":"Oslo","people":"many"}`, "people"},
		"a fraction":       {`{"name":"Oslo","people":1.5}`, "people"},
		"one more field":   {`{"name":"Oslo","people":1,"mayor":"x"}`, "mayor"},
		"no such word":     {`{"name":"Oslo","people":1,"colour":"blue"}`, "colour"},
		"no time":          {`{"name":"Oslo","people":1,"founded":"long ago"}`, "long ago"},
		"too large":        {`{"name":"Oslo","people":99999999999999999999}`, "9999"},
		"a list":           {`[` + good + `]`, "object"},
		"null":             {`null`, "object"},
		"a deep one, open": {strings.Repeat(`{"a":`, 20000), "not JSON"},
	} {
		var asked []llm.Request
		got, err := llm.GenerateFrom[city](t.Context(), answering(&asked, c.bad, good),
			llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "Which city?"}}})
		if err != nil || got.Value.Name != "Oslo" || len(asked) != 2 {
			t.Fatalf("%s: %+v, %v after %d requests; want Oslo after 2", name, got, err, len(asked))
		}
		said := asked[1].Messages
		if len(said) != 3 || said[1].Role != llm.Assistant || !strings.Contains(said[2].Text, c.says) || !strings.Contains(said[2].Text, `"people"`) {
			t.Errorf("%s: the model was told %+v, want %q and the schema", name, said[len(said)-1].Text, c.says)
		}
		if got.Usage.Input != 20 || got.Usage.Output != 2 {
			t.Errorf("%s: usage %+v, want that of both", name, got.Usage)
		}

		asked = nil
		got, err = llm.GenerateFrom[city](t.Context(), answering(&asked, c.bad),
			llm.Request{Messages: []llm.Message{{Role: llm.User, Text: "Which city?"}}})
		var e *llm.Error
		if !errors.Is(err, llm.ErrUnfit) || !errors.As(err, &e) || e.Model != "func" || len(asked) != 2 || len(err.Error()) > 1000 {
			t.Errorf("%s: %v after %d requests, want that it does not fit, after 2", name, err, len(asked))
		}
		if d := cmp.Diff(llm.Generation[city]{Usage: llm.Usage{Input: 20, Output: 2}}, got); d != "" {
			t.Errorf("%s: beside the error (-want +got):\n%s", name, d)
		}
	}
}

func TestGenerateTellsRefusalsApart(t *testing.T) {
	for stop, want := range map[llm.Stop]error{llm.StopFilter: llm.ErrRefused, llm.StopLength: llm.ErrCut} {
		m := llm.Func(func(context.Context, llm.Request) (llm.Response, error) {
			return llm.Response{Message: llm.Message{Text: `{"name":"O`}, Stop: stop}, nil
		})
		if _, err := llm.Generate[city](t.Context(), m, "x"); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", stop, err, want)
		}
	}
	broken := llm.Func(func(context.Context, llm.Request) (llm.Response, error) {
		return llm.Response{}, &llm.Error{Model: "func", Err: llm.ErrAuth}
	})
	if _, err := llm.Generate[city](t.Context(), broken, "x"); !errors.Is(err, llm.ErrAuth) {
		t.Errorf("error = %v, want the model's", err)
	}
}

func TestFormsOfOtherTypes(t *testing.T) {
	ask := func(text string) llm.Model { var asked []llm.Request; return answering(&asked, text) }
	if got, err := llm.Generate[[]string](t.Context(), ask(`{"value":["a","b"]}`), "x"); err != nil || len(got) != 2 {
		t.Errorf("a list: %v, %v", got, err)
	}
	if got, err := llm.Generate[int](t.Context(), ask(`{"value":7}`), "x"); err != nil || got != 7 {
		t.Errorf("a number: %v, %v", got, err)
	}
	if got, err := llm.Generate[colour](t.Context(), ask(`{"value":"green"}`), "x"); err != nil || got != "green" {
		t.Errorf("a word: %v, %v", got, err)
	}
	if _, err := llm.Generate[colour](t.Context(), ask(`{"value":"blue"}`), "x"); !errors.Is(err, llm.ErrUnfit) {
		t.Errorf("another word: %v", err)
	}
	never := llm.Func(func(context.Context, llm.Request) (llm.Response, error) {
		t.Error("the model was asked")
		return llm.Response{}, nil
	})
	if _, err := llm.Generate[loop](t.Context(), never, "x"); err == nil || !strings.Contains(err.Error(), "cycle") {
		t.Errorf("a type that contains itself: %v", err)
	}
	if _, err := llm.Generate[map[int]string](t.Context(), never, "x"); err == nil {
		t.Error("numbers as names are taken")
	}
	if _, err := llm.Generate[struct{ F func() }](t.Context(), never, "x"); err == nil {
		t.Error("a function is taken")
	}
	if _, err := llm.Generate[struct{ Any any }](t.Context(), never, "x"); err == nil || !strings.Contains(err.Error(), "interface") {
		t.Errorf("an interface: %v", err)
	}
}

func TestFormSaysWhatItAsksFor(t *testing.T) {
	f, _, err := llm.FormFor[city]()
	if err != nil {
		t.Fatal(err)
	}
	o := f.Output()
	var s struct {
		Required   []string
		Properties map[string]struct {
			Description, Format string
			Enum                []string
		}
	}
	if err := json.Unmarshal(o.Schema, &s); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"name", "people"}, s.Required); d != "" {
		t.Errorf("required (-want +got):\n%s", d)
	}
	p := s.Properties
	if p["name"].Description != "its name in English" || p["founded"].Format != "date-time" || len(p["colour"].Enum) != 2 ||
		p["walk"].Description != "nanoseconds" {
		t.Errorf("schema = %s", o.Schema)
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if again, _, err := llm.FormFor[city](); err != nil || !bytes.Equal(again.Output().Schema, o.Schema) {
				t.Errorf("a second form: %v, %v; want %v", again, err, o)
			}
		})
	}
	wg.Wait()
}

func ExampleGenerate() {
	type place struct {
		City string `json:"city"`
	}
	model := llm.Func(func(context.Context, llm.Request) (llm.Response, error) {
		return llm.Response{Message: llm.Message{Text: `{"city": "Oslo"}`}}, nil
	})
	got, err := llm.Generate[place](context.Background(), model, "What is the capital of Norway?")
	fmt.Println(got.City, err)
	// Output: Oslo <nil>
}

// FuzzGenerate reads any answer as a value: it fits, or the error says so.
func FuzzGenerate(f *testing.F) {
	for _, s := range []string{`{"name":"a","people":1}`, "```json\n{}\n```", `{"name":"a","people":1e400}`, `[`, "", "```",
		`{"name":"\ud800","people":1}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var asked []llm.Request
		got, err := llm.Generate[city](t.Context(), answering(&asked, text), "x")
		if err != nil && !errors.Is(err, llm.ErrUnfit) {
			t.Fatalf("error %v from %q", err, text)
		}
		if err == nil && got.Colour != "" && got.Colour != "red" && got.Colour != "green" {
			t.Fatalf("%+v from %q", got, text)
		}
	})
}
